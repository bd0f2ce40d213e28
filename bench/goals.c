/*-------------------------------------------------------------------------
 *
 * goals.c
 *	  What was asked for, and whether it was reached.
 *
 *-------------------------------------------------------------------------
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "transforms.h"

#define GOALS_MAX		100

typedef struct Goal
{
	char		text[100];
	double		measured;
	Direction	direction;
	double		wanted;
} Goal;

static Goal goals[GOALS_MAX];
static int	ngoals;

void
note_goal(double measured, Direction direction, double wanted, const char *format, ...)
{
	Goal	   *goal = &goals[ngoals];
	va_list		args;

	if (ngoals == GOALS_MAX)
		abort();
	ngoals++;
	goal->measured = measured;
	goal->direction = direction;
	goal->wanted = wanted;
	va_start(args, format);
	vsnprintf(goal->text, sizeof(goal->text), format, args);
	va_end(args);
}

bool
print_goals(void)
{
	bool		all = true;

	for (int i = 0; i < ngoals; i++)
	{
		const Goal *goal = &goals[i];
		bool		reached = goal->direction == AT_LEAST ? goal->measured >= goal->wanted :
			goal->measured <= goal->wanted;

		printf("%-86s %8.2f   %s %.2f: %s\n", goal->text, goal->measured,
			   goal->direction == AT_LEAST ? "at least" : "at most", goal->wanted,
			   reached ? "reached" : "NOT REACHED");
		all &= reached;
	}
	return all;
}

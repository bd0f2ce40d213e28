/*-------------------------------------------------------------------------
 *
 * arguments.c
 *	  What the benchmarks of compression, encryption and deduplication are called with.
 *
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"
#include "transforms.h"

Arguments
begin_transforms(const char *program, int argc, char **argv)
{
	Arguments	arguments = {.conninfo = "", .repeat = 5};

	for (int i = 1; i < argc; i++)
	{
		if (strcmp(argv[i], "--quick") == 0)
			arguments.quick = true;
		else if (strcmp(argv[i], "--repeat") == 0 && i + 1 < argc)
			arguments.repeat = atoi(argv[++i]);
		else if (arguments.directory == NULL)
			arguments.directory = argv[i];
		else
			arguments.conninfo = argv[i];
	}
	if (arguments.directory == NULL)
	{
		fprintf(stderr, "usage: %s [--quick] [--repeat N] DIRECTORY [CONNINFO]\n", program);
		exit(2);
	}
	if (arguments.quick)
		arguments.repeat = 3;
	check_repeat(arguments.repeat);
	load_corpora(arguments.directory);
	open_connection(arguments.conninfo);
	return arguments;
}

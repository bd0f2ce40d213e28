/*-------------------------------------------------------------------------
 *
 * interrupt.h
 *	  Leaving early, by a signal or because nothing makes sense any more, with
 *	  nothing left behind.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SECUREFILE_INTERRUPT_H
#define SECUREFILE_INTERRUPT_H

#include <termios.h>

#include <libpq-fe.h>

extern void interrupt_begin(void);
extern void interrupt_watch(PGconn *conn);
extern void interrupt_unwatch(PGconn *conn);
extern void interrupt_keep_terminal(const struct termios *settings);
extern void interrupt_leave(int status) __attribute__((noreturn));

#endif							/* SECUREFILE_INTERRUPT_H */

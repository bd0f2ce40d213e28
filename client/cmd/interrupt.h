/*-------------------------------------------------------------------------
 *
 * interrupt.h
 *	  Leaving early, by a signal or because standard output failed, without leaving
 *	  temporary files or running statements behind.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SECUREFILE_INTERRUPT_H
#define SECUREFILE_INTERRUPT_H

#include <termios.h>

#include <libpq-fe.h>

/*
 * Start the thread that takes signals.  To be called before there are other threads, which
 * inherit the blocked signals.  Ends the process if there can be no thread.
 */
extern void interrupt_begin(void);

/* Let an interrupt cancel the running statement of this connection; and not any more. */
extern void interrupt_watch(PGconn *conn);
extern void interrupt_unwatch(PGconn *conn);

/* Settings of the terminal that an interrupt puts back; NULL: none. */
extern void interrupt_keep_terminal(const struct termios *settings);

/* End the process at once; temporary files are removed. */
extern void interrupt_leave(int status) __attribute__((noreturn));

#endif							/* SECUREFILE_INTERRUPT_H */

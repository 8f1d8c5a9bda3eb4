/* mux_private.h - between mux.c and mux_read.c: the states of streams. */
#pragma once

#include "mux.h"

enum {
	USED = 1 << 0,
	CAN_IN = 1 << 1, /* the directions that it has */
	CAN_OUT = 1 << 2,
	EOF_SENT = 1 << 3, /* or there is no such direction */
	EOF_RECEIVED = 1 << 4,
	RESET_WANTED = 1 << 5, /* to be sent */
	RESET_SENT = 1 << 6,
	RESET_RECEIVED = 1 << 7,
	OPEN_WANTED = 1 << 8, /* to be sent */
	UNANSWERED = 1 << 9,  /* the other end has not answered OPEN */
	UNDECIDED = 1 << 10,  /* this end has not answered OPEN */
	WANTS = 1 << 11,      /* mux_want() */
	QUEUED_CONTROL = 1 << 12,
	QUEUED_DATA = 1 << 13,
	GIVEN_UP = 1 << 14,	 /* by the caller: no more events */
	ANSWER_WANTED = 1 << 15, /* the next CREDIT is the answer to OPEN, whatever it has */
};

/* NULL: no stream has the number. */
struct mux_stream *mux_find_(struct mux *m, uint16_t number);
/* Is it a number that this end chooses? */
bool mux_is_own_(const struct mux *m, uint16_t number);

void mux_start_(struct mux_stream *s, enum mux_way way, void *arg);
/* Both ends have sent RESET: the number is free. */
void mux_release_(struct mux *m, uint16_t number);
/* Puts the stream into the queues that it belongs to now. */
void mux_requeue_(struct mux *m, uint16_t number);
/* RESET is to be sent, if it was not. */
void mux_ask_reset_(struct mux *m, uint16_t number, int sys);
/* The same, if both directions had their EOF. */
void mux_end_if_complete_(struct mux *m, uint16_t number);

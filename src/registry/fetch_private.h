/* fetch_private.h - what fetch.c and fetch_head.c share. */
#pragma once

#include "fetch.h"

/* fetch.state: what is asked for. */
enum { FETCH_OBJECT, FETCH_TOKEN };

/* fetch.next: what follows when the request under way has ended. */
enum {
	FETCH_DONE,   /* the body is the object, or the token */
	FETCH_LOGIN,  /* answer the challenge */
	FETCH_FOLLOW, /* ask at the address in `at` */
	FETCH_AGAIN,  /* begin another attempt, after wait_ms */
	FETCH_FAIL,   /* end with `failed` */
};

/* A callback of get.h: the head of an answer has come. */
bool fetch_on_head(struct get *g, const struct http1_response *r);
/* Sets `failed`: the answer has more bytes than were announced or allowed. */
void fetch_too_long(struct fetch *f);

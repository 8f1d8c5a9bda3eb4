/* once.h - the header Idempotency-Key: a request repeated with its key gets the object that the
 * first one made, for an hour, also after a restart. A key belongs to a tenant and to one request:
 * with another path or body it is refused. */
#pragma once

#include "daemon/store/store_once.h"
#include "front/web/request.h"

struct once;

/* Called once, with the whole body. 0: do the request. With a key, r->once is set until the request
 * ends. 1: it was done before, and made *ret_object. -1: ERR_INVALID, ERR_CONFLICT (another
 * request, or the first one has no answer yet), REASON_QUOTA_RECORDS. */
int once_begin(struct request *r, const void *body, size_t len, char ret_object[STORE_ID_MAX],
	       struct err *e) MUST_USE;
/* The row to be written together with the new object. NULL: there is no key. */
struct store_once *once_row(struct request *r);
/* The request has made its object, and the row was not written with it. */
int once_write(struct request *r, const char *object, struct err *e) MUST_USE;
/* The object that the request made is gone: do a repetition. */
void once_forget(struct request *r);
/* The answer to a repetition says so. */
void once_replayed(struct request *r);
/* For request.c: the request ends. */
void once_free(struct once *o);

/* written.h - the files that one request has written: what is answered, and what may not come
 * again. */
#pragma once

#include "file_msg.h"
#include "json.h"
#include "request.h"

#define WRITTEN_MAX 10000

struct written {
	struct json j;	  /* owned: the answer's array */
	uint64_t *hashes; /* owned: of the places, as asked for and as they are */
	size_t n, cap;
	unsigned files;
	bool twice;
};

/* A file is there. target: as it was asked for. ERR_LIMIT: no more than WRITTEN_MAX. */
int written_add(struct written *w, const char *target, const struct file_msg_entry *entry,
		struct err *e) MUST_USE;
/* Was there one that was asked for, or is, at this place? */
bool written_has(const struct written *w, const char *place);
/* Has one overwritten another? */
bool written_is_twice(const struct written *w);
/* [{"path","name","type"}, ...] */
void written_reply(struct written *w, struct request *r);
void written_release(struct written *w);

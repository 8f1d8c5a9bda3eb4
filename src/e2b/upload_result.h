/* upload_result.h - the files that one request has written: the answer, and the check that no path
 * is written twice. */
#pragma once

#include "file_msg.h"
#include "json.h"
#include "request.h"

#define UPLOAD_RESULT_MAX 10000

struct upload_result {
	struct json j;	  /* owned: the answer's array */
	uint64_t *hashes; /* owned: of the places, as requested and as resolved */
	size_t n, cap;
	unsigned files;
	bool twice;
};

/* A file was written. target: as requested. ERR_LIMIT: no more than UPLOAD_RESULT_MAX. */
int upload_result_add(struct upload_result *w, const char *target,
		      const struct file_msg_entry *entry, struct err *e) MUST_USE;
/* Was a file with this requested or resolved place written before? */
bool upload_result_has(const struct upload_result *w, const char *place);
/* Has one overwritten another? */
bool upload_result_is_twice(const struct upload_result *w);
/* [{"path","name","type"}, ...] */
void upload_result_reply(struct upload_result *w, struct request *r);
void upload_result_release(struct upload_result *w);

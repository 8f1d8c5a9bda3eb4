/* notary_judge.h - whether a checkpoint may be signed: cordon-notary's one decision. Pure. */
#pragma once

#include "lib/tlog/tlog.h"
#include "lib/wire/notary_msg.h"

enum notary_verdict {
	NOTARY_MAY_SIGN,  /* it is remembered already */
	NOTARY_MUST_KEEP, /* it extends the remembered state: to be kept, then signed */
	NOTARY_MUST_REFUSE,
};

/* Whether the origin is "NAME/LOG/EPOCH" with that name: LOG of letters, digits, "_" and "-",
 * EPOCH a number from 1. */
bool notary_origin_is_valid(const char *name, const char *origin);

/* size, root: the remembered state of the log. An unknown log has size 0. m is a SIGN. */
enum notary_verdict notary_judge(uint64_t size, const struct tlog_hash *root,
				 const struct notary_msg *m, enum notary_reason *ret_reason);

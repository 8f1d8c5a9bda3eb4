#include "notary/notary_judge.h"

#include <string.h>

#define LOG_CHARS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"
#define EPOCH_DIGITS 9

bool notary_origin_is_valid(const char *name, const char *origin)
{
	size_t n = strlen(name), digits;

	if (n == 0 || strncmp(origin, name, n) != 0 || origin[n] != '/')
		return false;
	origin += n + 1;
	n = strspn(origin, LOG_CHARS);
	if (n == 0 || origin[n] != '/')
		return false;
	origin += n + 1;
	digits = strspn(origin, "0123456789");
	return digits > 0 && digits <= EPOCH_DIGITS && origin[0] != '0' && origin[digits] == '\0';
}

/* For a return in one line. */
static enum notary_verdict notary_judge_refuse(enum notary_reason why, enum notary_reason *ret)
{
	*ret = why;
	return NOTARY_MUST_REFUSE;
}

/* The checks in order: not smaller, the same if equal, a proof from the remembered size, and a
 * proof that holds. */
enum notary_verdict notary_judge(uint64_t size, const struct tlog_hash *root,
				 const struct notary_msg *m, enum notary_reason *ret_reason)
{
	struct tlog_proof proof = { .n = m->nproof };
	struct tlog_hash empty, wanted;

	tlog_empty(&empty);
	memcpy(wanted.bytes, m->root, TLOG_HASH);
	memcpy(proof.hashes, m->proof, m->nproof * sizeof(proof.hashes[0]));
	if (m->size < size)
		return notary_judge_refuse(NOTARY_ROLLBACK, ret_reason);
	if (m->size == size)
		return tlog_hash_equal(&wanted, size == 0 ? &empty : root)
			       ? NOTARY_MAY_SIGN
			       : notary_judge_refuse(NOTARY_FORK, ret_reason);
	if (m->old_size != size)
		return notary_judge_refuse(NOTARY_STALE, ret_reason);
	if (!tlog_consistency_holds(size, m->size, root, &wanted, &proof))
		return notary_judge_refuse(NOTARY_FORK, ret_reason);
	return NOTARY_MUST_KEEP;
}

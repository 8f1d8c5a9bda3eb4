/* package_unverified.c - decides about a file of which no digest is known: neither a pin, nor an
 * index, nor a checksum of the registry names one. Called by cordon-egress when it has looked for
 * all of them. Pure.
 *
 * A layer that does not say decides by what the ecosystem promises. Where every file has a digest
 * that can be had, one without is refused: an attacker who can hide the digest would choose the
 * bytes. apt checks files by its signed index, which may be older than what the archive lists now;
 * a direct URL leads to a host that a rule names. These pass, and the record says that they are not
 * verified. git checks commits by their ids: its packs are never asked about. */
#include <string.h>

#include "package_reason.h"
#include "packages_private.h"

static bool is_usual(const struct package_question *q)
{
	return q->registry == NULL || q->request->ecosystem == ECO_APT ||
	       q->request->ecosystem == ECO_GIT;
}

static bool may(const struct packages_policy *p, size_t layer, const struct package_question *q)
{
	enum packages_unverified says = UNVERIFIED_USUAL;

	if (q->registry != NULL && q->registry->ecosystem == q->request->ecosystem)
		says = packages_entry_of(q->registry)->unverified[layer];
	if (says == UNVERIFIED_USUAL)
		says = p->layers[layer].unverified;
	return says == UNVERIFIED_USUAL ? is_usual(q) : says == UNVERIFIED_ALLOW;
}

bool package_judge_unverified(const struct packages_policy *p, const struct package_question *q,
			      struct package_answer *ret)
{
	for (size_t i = 0; p != NULL && i < POLICY_LAYERS; i++) {
		if (!p->layers[i].given || may(p, i, q))
			continue;
		package_reason_set(ret, q, (enum policy_layer)i, "unverified",
				   "has no checksum to verify it by, %s wants one",
				   package_reason_who((enum policy_layer)i));
		return false;
	}
	return true;
}

/* package_unverified.c - decides about a file without a known digest: no pin, index or checksum of
 * the registry names one. Called by cordon-egress after it has looked for all of them. Pure.
 *
 * A layer without its own setting follows the ecosystem. Where every file has a digest, a file
 * without one is refused: an attacker who can hide the digest would choose the bytes. apt checks
 * files by its signed index, which may be older than the current list of the archive. A direct URL
 * leads to a host that a rule names. These two pass, and the record says that they are not
 * verified. git checks commits by their ids, so its packs are never asked about. */
#include <string.h>

#include "lib/policy/package_reason.h"
#include "lib/policy/packages_private.h"

/* Is a file without a digest usual there? */
static bool is_usual(const struct package_question *q)
{
	return q->registry == NULL || q->request->ecosystem == ECO_APT ||
	       q->request->ecosystem == ECO_GIT;
}

/* The registry's entry counts first, then the layer, then the ecosystem. */
static bool package_unverified_may(const struct packages_policy *p, size_t layer,
				   const struct package_question *q)
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
		if (!p->layers[i].given || package_unverified_may(p, i, q))
			continue;
		package_reason_set(ret, q, (enum policy_layer)i, "unverified",
				   "has no checksum to verify it by, %s wants one",
				   package_reason_who((enum policy_layer)i));
		return false;
	}
	return true;
}

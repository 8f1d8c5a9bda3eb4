/* package_changes.h - a registry's new and changed facts about a package: files whose digest or
 * time changed, and new files that claim to be older than the last document that did not have them.
 * Owned by a view (package_view.h). Asked by the gate. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "lib/packages/package_meta.h"

#define PACKAGE_CHANGES_AT_ONCE 4096U
#define PACKAGE_CHANGES_MAX 32U /* remembered files of each kind */
/* Registries answer from caches of their own, and clocks differ: so much later a file may appear.
 */
#define PACKAGE_CHANGES_DELAY_MS (3600 * 1000ULL)

struct package_changes {
	char *changed[PACKAGE_CHANGES_MAX]; /* owned */
	unsigned nchanged;
	bool all_changed; /* more than fit: all count as changed */
	struct package_backdated {
		char *file; /* owned */
		uint64_t seen_ms;
	} backdated[PACKAGE_CHANGES_MAX];
	unsigned nbackdated;
	uint64_t all_backdated_ms; /* more than fit, since then. 0: not */
};

void package_changes_release(struct package_changes *c);
/* The registry said `was` until was_ms, and says `is` at now_ms. */
struct package_changes_pair {
	const struct package_meta *was, *is;
	uint64_t was_ms, now_ms;
	bool by_version; /* a version has one file, under any name: npm */
};
/* Compare up to PACKAGE_CHANGES_AT_ONCE facts, from *at, 0 at first. Call on_backdated for files
 * that it has not reported so far. True: there are more. */
bool package_changes_compare(struct package_changes *c, const struct package_changes_pair *p,
			     size_t *at,
			     void (*on_backdated)(const struct package_facts *f, void *arg),
			     void *arg) MUST_USE;
/* file: its name, or the version where files have none. */
bool package_changes_is_changed(const struct package_changes *c, const char *file);
/* Since when this node knows a file that claims to be older than that. 0: it does not. */
uint64_t package_changes_backdated(const struct package_changes *c, const char *file);

/* The name of a fact here. */
const char *package_changes_name(const struct package_facts *f);

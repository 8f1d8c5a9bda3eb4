/* packages_private.h - the packages members of a document that was read. Private to src/policy.
 *
 *   packages_read.c      the member of one layer, and all of them
 *   packages_registry.c  registries: those that are built in, reading, finding
 *   packages_layers.c    what follows from all layers together
 *   package_patterns.c, package_pins.c, package_lockfiles.c
 *                        lists of names; pins; lockfiles become pins
 *   package_judge.c      decides; package_unverified.c about files without a known digest;
 *                        package_reason.c writes reasons */
#pragma once

#include "package_patterns.h"
#include "package_pins.h"
#include "packages_policy.h"
#include "policy_private.h"

#define PACKAGE_REGISTRIES_MAX 64
#define PACKAGE_FILE_HOSTS_MAX 16

enum packages_mode { PACKAGES_OPEN, PACKAGES_PINNED, PACKAGES_OFFLINE, PACKAGES_OFFLINE_CACHE };
enum packages_choice { PACKAGES_PASS, PACKAGES_ASK, PACKAGES_DENY };
/* Files of which no digest is known. */
enum packages_unverified { UNVERIFIED_USUAL, UNVERIFIED_ALLOW, UNVERIFIED_DENY };

/* A registry, and what each layer says of it: a lower layer must not loosen what a higher one says
 * of age and of names of its own. */
struct packages_entry {
	struct package_registry registry; /* first */
	enum policy_layer layer;	  /* the highest that lists it: it opened the hosts */
	bool says_private;		  /* in its own list */
	bool says_unknown_age;
	bool is_private[POLICY_LAYERS];	 /* as each layer sees it */
	bool unknown_age[POLICY_LAYERS]; /* packages without a time are old enough */
	enum packages_unverified says_unverified, unverified[POLICY_LAYERS];
};

struct packages_entries {
	struct packages_entry *list;
	size_t n;
	bool given;
};

struct packages_layer {
	bool given;
	enum packages_mode mode;
	enum packages_choice scripts, sources;
	enum packages_unverified unverified;
	uint64_t min_age_ms; /* 0: none */
	bool unknown_age, search, audit, publish, no_direct, no_advisories, cache_private;
	struct package_patterns allow, deny, own, min_age_except, scripts_except;
	struct package_pin_table pins;
	struct packages_entries registries;
	struct packages_limits limits;
};

struct packages_policy {
	struct packages_layer layers[POLICY_LAYERS];
	struct packages_entries registries; /* of the lowest layer that lists any */
	struct packages_limits limits;
	bool cache_only, cache_private;
	bool offline; /* a layer has mode offline */
};

/* packages_read.c: all members of the document; p->packages stays NULL without any. */
int packages_read(struct policy *p, enum policy_layer layer, struct err *e) MUST_USE;

/* packages_registry.c */
int packages_registry_read(struct policy *p, struct package_arena *a, const json_t *v,
			   const char *at, struct packages_entries *ret, struct err *e) MUST_USE;
const struct packages_entry *packages_entry_find(const struct packages_policy *p, const char *host,
						 uint16_t port, const char *path, bool *ret_files);
/* Does a layer's list open this host, which no rule allows? port 0: any. plain: for a request
 * without TLS, which only apt may do: its archives are signed. */
bool packages_registry_opens(const struct package_registry *r, const char *host, uint16_t port,
			     bool plain);
/* "allow", "deny"; nothing: as it is usual for the ecosystem. */
int packages_unverified_read(const json_t *v, const char *at, enum packages_unverified *ret,
			     struct err *e) MUST_USE;
/* The built-in one of the same ecosystem, host, port and path; NULL: none. */
const struct packages_entry *packages_built_in(const struct package_registry *like);
bool packages_registry_same(const struct package_registry *a, const struct package_registry *b);

/* packages_layers.c: checks layers against each other, and fills in what all of them say. */
int packages_layers_join(struct policy *p, struct packages_policy *all, struct err *e) MUST_USE;

/* packages_rules.c: what packages members mean for rules. */
/* The entry that opens this target for requests with this path (NULL: some path); NULL: none.
 * plain: the request came without TLS. */
const struct packages_entry *packages_rules_open(const struct policy *p,
						 const struct policy_target *to, const char *path,
						 bool plain);
/* Must requests to the target be read? True of every target with HTTP under a package policy; a
 * rule that is never read keeps its connections unread, unless its target is a registry. */
bool packages_rules_read(const struct policy *p, const struct policy_target *to,
			 const struct policy_rule *rule);
/* Does a layer above the rule's have a packages member, so that it cannot stay unread? */
bool packages_rules_above(const struct policy *p, const struct policy_rule *rule,
			  enum policy_layer *ret);
/* Calls on_host for every host that a listed registry opens. */
void packages_rules_hosts(const struct policy *p, void (*on_host)(const char *host, void *arg),
			  void *arg);
/* Rules that would never be read, of a session that may only have what is pinned. */
int packages_rules_check(const struct policy *p, struct err *e) MUST_USE;
void packages_rules_warn(const struct policy *p, void (*on_warning)(const char *text, void *arg),
			 void *arg);

static inline const struct packages_entry *packages_entry_of(const struct package_registry *r)
{
	return (const struct packages_entry *)r;
}

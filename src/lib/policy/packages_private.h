/* packages_private.h - the packages members of a parsed document. Private to src/lib/policy.
 *
 *   packages_read.c      the member of one layer, and all of them
 *   packages_registry.c  registries: the built-in table, reading, finding
 *   packages_layers.c    combines the members of all layers
 *   package_patterns.c, package_pins.c, package_lockfiles.c
 *                        lists of names, pins, lockfiles as pins
 *   package_judge.c      decides. package_unverified.c decides about files without a known digest.
 *                        package_reason.c writes reasons */
#pragma once

#include "lib/policy/package_patterns.h"
#include "lib/policy/package_pins.h"
#include "lib/policy/packages_policy.h"
#include "lib/policy/policy_private.h"

#define PACKAGE_REGISTRIES_MAX 64
#define PACKAGE_FILE_HOSTS_MAX 16

/* The values of the members mode, scripts and sources. */
enum packages_mode { PACKAGES_OPEN, PACKAGES_PINNED, PACKAGES_OFFLINE, PACKAGES_OFFLINE_CACHE };
enum packages_choice { PACKAGES_PASS, PACKAGES_ASK, PACKAGES_DENY };
/* Files without a known digest. */
enum packages_unverified { UNVERIFIED_USUAL, UNVERIFIED_ALLOW, UNVERIFIED_DENY };

/* A registry, and the flags that each layer gives it. A lower layer must not loosen the rules of a
 * higher one for age and private names. */
struct packages_entry {
	struct package_registry registry; /* first */
	/* the highest layer that lists it: this layer opened the hosts */
	enum policy_layer layer;
	bool says_private; /* flags of its own list */
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

/* The member of one layer. */
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

/* The members of all layers, and the combined registries and limits. */
struct packages_policy {
	struct packages_layer layers[POLICY_LAYERS];
	struct packages_entries registries; /* of the lowest layer with a list */
	struct packages_limits limits;
	bool cache_only, cache_private;
	bool offline; /* a layer has mode offline */
};

/* packages_read.c: read all members of the document. p->packages stays NULL without any. */
int packages_read(struct policy *p, enum policy_layer layer, struct err *e) MUST_USE;

/* packages_registry.c */
int packages_registry_read(struct policy *p, struct package_arena *a, const json_t *v,
			   const char *at, struct packages_entries *ret, struct err *e) MUST_USE;
const struct packages_entry *packages_entry_find(const struct packages_policy *p, const char *host,
						 uint16_t port, const char *path, bool *ret_files);
/* Does a layer's list open this host without a rule? port 0: any. plain: for a request without TLS.
 * Only apt may send these, because its archives are signed. */
bool packages_registry_opens(const struct package_registry *r, const char *host, uint16_t port,
			     bool plain);
/* Read "allow" or "deny". Absent: the usual choice for the ecosystem. */
int packages_unverified_read(const json_t *v, const char *at, enum packages_unverified *ret,
			     struct err *e) MUST_USE;
/* Find the built-in entry with the same ecosystem, host, port and path. NULL: none. */
const struct packages_entry *packages_built_in(const struct package_registry *like);
bool packages_registry_same(const struct package_registry *a, const struct package_registry *b);

/* packages_layers.c: check layers against each other, and combine their members. */
int packages_layers_join(struct policy *p, struct packages_policy *all, struct err *e) MUST_USE;

/* packages_rules.c: the effect of packages members on rules. */
/* Find the entry that opens this target for requests with this path (NULL: some path). NULL: none.
 * plain: the request came without TLS. */
const struct packages_entry *packages_rules_open(const struct policy *p,
						 const struct policy_target *to, const char *path,
						 bool plain);
/* Must requests to the target be read? True for every target with HTTP under a package policy. A
 * rule for unread connections keeps them unread, unless its target is a registry. */
bool packages_rules_read(const struct policy *p, const struct policy_target *to,
			 const struct policy_rule *rule);
/* Does a layer above the rule's have a packages member, so that the connection must be read? */
bool packages_rules_above(const struct policy *p, const struct policy_rule *rule,
			  enum policy_layer *ret);
/* Call on_host for every host that a listed registry opens. */
void packages_rules_hosts(const struct policy *p, void (*on_host)(const char *host, void *arg),
			  void *arg);
/* Refuse rules for unread connections in a session limited to pinned packages. */
int packages_rules_check(const struct policy *p, struct err *e) MUST_USE;
/* Warn of probable mistakes in rules and members. */
void packages_rules_warn(const struct policy *p, void (*on_warning)(const char *text, void *arg),
			 void *arg);

/* Valid since `registry` is the first member. */
static inline const struct packages_entry *packages_entry_of(const struct package_registry *r)
{
	return (const struct packages_entry *)r;
}

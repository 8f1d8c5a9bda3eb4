/* policy_private.h - the structures of a parsed document. Private to src/lib/policy.
 *
 *   policy_read.c        the document. policy_value.c reads single values
 *   policy_rule*.c       one rule: its conditions (_match), its effects (_effects)
 *   policy_read.c, policy_proxy.c
 *                        checks that need all rules
 *   policy_merge.c       layers to one document. policy_preset.c, policy_memo.c (cache)
 *   policy_alarms.c      rules of alarms, read and merged (alarm_rules.c)
 *   policy_select.c      settings: names of presets, or a document
 *   policy_list.c        finds the rules for a target
 *   policy_decide.c      decides about names, connections and requests. policy_request.c
 *                        compares requests, policy_decide.c writes reasons
 *   policy_resolved.c, policy_secrets.c, policy_query.c
 *                        other questions about a policy
 *   host.c, path.c, glob.c, fold.c
 *                        normal forms and patterns, without policies
 *   package*.c           packages, see packages_private.h
 *   access_record_text.c reads records that egress sent */
#pragma once

#include <jansson.h>

#include "lib/policy/host.h"
#include "lib/policy/policy.h"

#define POLICY_ITEMS_MAX 256	   /* of one list in a rule */
#define POLICY_HOSTS_MAX 16384	   /* of a document */
#define POLICY_SLOW_MAX 256	   /* patterns of a document for which glob_is_slow() */
#define POLICY_WORK_MAX (1U << 20) /* work of comparing one request, about 10 ns each */
#define POLICY_LABELS_MAX 130	   /* lists that may contain one name */

static inline void policy_json_free_(json_t **j)
{
	json_decref(*j);
}
#define OWN_POLICY_JSON __attribute__((cleanup(policy_json_free_))) json_t

struct policy_ports {
	uint16_t first, last;
};

/* A parameter of a query or a header, and the pattern for its value. */
struct policy_pair {
	const char *name, *glob;
	const char *folded; /* name of a parameter after fold_parameter() */
};

/* A block of addresses, in words: an address is in it if (address & mask) == want. */
struct policy_net {
	uint64_t mask[2], want[2];
};

/* A pattern of paths, and its first bytes up to its first star (without a star: all with the NUL),
 * masked. They tell most paths apart without comparing texts. */
#define POLICY_HEAD_WORDS 3
struct policy_path {
	const char *text;
	uint64_t mask[POLICY_HEAD_WORDS], want[POLICY_HEAD_WORDS];
};

/* A parameter of a query, decoded. value NULL: it cannot be decoded. */
struct policy_item {
	uint32_t hash; /* of folded */
	const char *name, *folded, *value;
	size_t n;
};

/* The parameters of a query, read once per request. */
struct policy_items {
	struct policy_item *at; /* owned */
	char *text;		/* owned: names and values */
	size_t n;
	bool is_read;
	const char *why; /* they cannot be compared: decide against the request */
};

/* A request with the first bytes of its path, padded with zeroes. Comparing rules adds texts, which
 * policy_request_forget() frees. */
struct policy_seen {
	const struct policy_request *request;
	uint64_t head[POLICY_HEAD_WORDS];
	bool overridden; /* a parameter "_method" names another method */
	bool has_semicolon;
	struct policy_items parameters, methods; /* methods: those called "_method" */
	size_t work;				 /* spent on comparing */
	const char *against;			 /* why a rule could not be compared, or NULL */
	char *loose; /* owned: the path after fold_path(), NULL: not needed so far */
	uint64_t loose_head[POLICY_HEAD_WORDS];
};

/* The conditions of a rule. The first members exclude most rules, and share one cache line. */
struct policy_match {
	const struct policy_ports *ports;
	size_t nports; /* 0: any */
	/* loose: the same paths, folded, in a rule that denies */
	const struct policy_path *paths, *loose;
	size_t npaths;
	size_t nmethods, nquery, nheaders;
	bool inspects; /* inspects requests: has methods, paths, query or headers */
	bool anywhere; /* neither host nor cidr was given */
	bool allow;    /* copy of the rule's */
	const char *const *methods;
	const struct policy_pair *query, *headers;
	size_t nhosts, nnets;
	const struct host_pattern *hosts;
	const struct ip_net *nets;
	const struct policy_net *fast_nets; /* the same blocks in words */
};

/* The rules for one pattern of names: their numbers, ascending. */
struct policy_entry {
	const struct host_pattern *key;
	uint32_t hash;
	uint32_t next; /* next entry of the slot, UINT32_MAX: the last */
	uint32_t *rules;
	size_t n;
};

/* Rules, tried in order. */
struct policy_list {
	struct policy_rule *rules;
	const struct policy_match **matches; /* those of the rules, close to each other */
	size_t n;
	struct policy_entry *entries;
	size_t nentries;
	uint32_t *slots; /* their number is a power of two */
	size_t nslots;
	size_t longest;		     /* pattern of names */
	uint32_t *names, *addresses; /* rules for every name, rules for addresses */
	size_t nnames, naddresses;
	bool given; /* of a ceiling: the layer has one */
};

/* A parsed document. */
struct policy {
	json_t *root, *expanded; /* owners of most texts */
	struct policy_chunk *chunks;
	struct policy_list list;
	struct policy_list ceilings[POLICY_LAYERS];
	bool merged;
	bool checked; /* its layers were just read one by one, so long lists are not read again */
	bool allow;   /* "default" */
	enum policy_layer allow_layer;
	bool answers_refused; /* "refused_names" */
	struct policy_limits limits;
	struct policy_proxy proxy;
	const struct ip_net *private_nets;
	size_t nprivate;
	size_t hosts, slow;			/* counted against their maxima */
	const struct packages_policy *packages; /* NULL: no layer has a packages member */
	struct alarm_rule_set alarms;
};

/* policy_read.c: check a merged document whose layers were read before. Only errors are of
 * interest, so long lists are not read, and no policy is returned. */
int policy_read_checked(json_t *root, struct err *e) MUST_USE;

/* Allocate zeroed memory that lives as long as the policy. NULL: out of memory. */
void *policy_alloc(struct policy *p, size_t n, size_t size);
int policy_no_memory(struct err *e);

extern const char *const policy_layer_names[POLICY_LAYERS];

/* policy_value.c: read members of documents. at: "" or the place, such as "rules[3]". Every error
 * names the place. */
int policy_value_fail(struct err *e, const char *at, const char *name, const char *fmt, ...)
	PRINTF(4, 5);
/* Refuse members missing in the list. */
int policy_value_known(const json_t *object, const char *const *names, size_t n, const char *at,
		       struct err *e) MUST_USE;
/* v NULL: *ret does not change. Printable, 1 to max bytes. */
int policy_value_text(const json_t *v, size_t max, const char *at, const char *name,
		      const char **ret, struct err *e) MUST_USE;
int policy_value_bool(const json_t *v, const char *at, const char *name, bool *ret,
		      struct err *e) MUST_USE;
/* Read one of these words. *ret is its index. */
int policy_value_word(const json_t *v, const char *const *words, size_t n, const char *at,
		      const char *name, size_t *ret, struct err *e) MUST_USE;
/* Read a text or a list of texts. */
int policy_value_texts(struct policy *p, const json_t *v, size_t max, const char *at,
		       const char *name, const char *const **ret, size_t *ret_n,
		       struct err *e) MUST_USE;
int policy_value_nets(struct policy *p, const json_t *v, const char *at, const char *name,
		      const struct ip_net **ret, size_t *ret_n, struct err *e) MUST_USE;
int policy_value_limits(const json_t *v, const char *at, struct policy_limits *ret,
			struct err *e) MUST_USE;

/* policy_rule.c */
/* Return "HOST[:PORT][/PATH]" as an object, a new reference. NULL: malformed. */
json_t *policy_rule_expand(const char *text);
int policy_rule_read(struct policy *p, json_t *v, const char *at, bool ceiling,
		     struct policy_rule *ret, struct err *e) MUST_USE;
/* policy_rule.c: the conditions of a rule. */
int policy_rule_match(struct policy *p, const json_t *v, const char *at, bool allow,
		      struct policy_match *ret, struct err *e) MUST_USE;
/* policy_rule.c: the effects of a rule on requests it allows. */
int policy_rule_effects(struct policy *p, const json_t *v, const char *at, struct policy_rule *r,
			struct err *e) MUST_USE;

/* policy_list.c: build an index over list->rules, and walk over the rules for a target. */
int policy_list_index(struct policy *p, struct policy_list *list, struct err *e) MUST_USE;
bool policy_list_fits_port(const struct policy_match *m, uint16_t port);
/* Is the address in a block of the rule? A rule that denies also compares the address behind a
 * translating gateway. */
bool policy_list_fits_block(const struct policy_match *m, const struct ip *ip);

/* A walk over the rules for a target, in the order of the document. */
struct policy_walk {
	const struct policy_list *list;
	struct policy_cursor {
		const uint32_t *at, *end;
	} cursors[POLICY_LABELS_MAX];
	size_t n;
	uint32_t last;
	bool started;
	const struct policy_seen *seen;	  /* the request, to skip most rules, or NULL */
	const struct policy_match *match; /* of the rule found last */
	const struct policy_target *to;	  /* any_port: ports are not compared */
	bool any_port;
};
void policy_list_walk(const struct policy_list *list, const struct policy_target *to, bool any_port,
		      struct policy_walk *ret);
/* The next rule for the target. NULL: the end. */
const struct policy_rule *policy_list_next(struct policy_walk *w);

/* policy_proxy.c: called after rules and ceilings were read. */
int policy_proxy_read(struct policy *p, const json_t *v, enum policy_layer layer,
		      struct err *e) MUST_USE;

/* policy_read.c: called after rules and ceilings were read. */
int policy_set_headers_check(const struct policy *p, struct err *e) MUST_USE;

/* policy_alarms.c: read the member "alarms", which may be NULL. */
int policy_alarms_read(const json_t *v, struct alarm_rule_set *ret, struct err *e) MUST_USE;
/* Merge the member of a layer, read by policy_alarms_read(), into that of the merged document. -1:
 * out of memory. */
int policy_alarms_merge(json_t *root, const json_t *from) MUST_USE;

/* policy_request.c: see() before the first comparison of a request, forget() after the last. */
void policy_request_see(const struct policy_request *q, struct policy_seen *ret);
void policy_request_forget(struct policy_seen *s);
bool policy_request_fits(const struct policy_match *m, struct policy_seen *s);
void policy_request_compile(const char *pattern, struct policy_path *ret);

/* policy_decide.c: each writes the reason of a refusal. */
void policy_reason_rule(const struct policy_target *to, const struct policy_rule *r,
			struct policy_answer *ret);
/* q NULL: a name or a connection. */
void policy_reason_none(const struct policy *p, const struct policy_target *to,
			const struct policy_request *q, struct policy_answer *ret);
void policy_reason_ceiling(const struct policy_target *to, enum policy_layer layer, const char *why,
			   struct policy_answer *ret);
/* The target is allowed, but not for bytes of any kind. */
void policy_reason_ceiling_raw(const struct policy_target *to, struct policy_answer *ret);
/* The connections of the rule would not be read, but the packages member of a layer above must see
 * them. */
void policy_reason_packages(const struct policy_target *to, enum policy_layer layer,
			    struct policy_answer *ret);
/* The rule denies WebSockets, or (rule NULL) the ceiling of a layer does not allow them. */
void policy_reason_websocket(const struct policy_target *to, const struct policy_rule *r,
			     enum policy_layer layer, struct policy_answer *ret);
/* The rule puts in a secret, and secrets are never sent without TLS. */
void policy_reason_plain(const struct policy_target *to, const struct policy_rule *r,
			 struct policy_answer *ret);

static inline const struct policy_match *policy_match_of(const struct policy_rule *r)
{
	return r->match;
}

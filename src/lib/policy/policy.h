/* policy.h - decides which hosts a session may contact. A document is read once, and asked about
 * every name, connection and request. Pure: no clock, no I/O. doc/policy.md describes the document
 * for its authors.
 *
 * Rules are tried in order, and the first rule that matches decides. Without a match the answer is
 * a refusal (unless "default" is allow). Names are compared in their normal form (host.h), and so
 * are paths (path.h). The compared form is sent on.
 *
 * Three layers are merged into one document: node, tenant, session, in that order. The "ceiling" of
 * a layer is a list of rules that must also allow everything that lower layers allow. Only the
 * node's layer can open private addresses ("private"), whatever rules say. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/err.h"
#include "lib/base/ip.h"
#include "lib/http/http1.h"
#include "lib/policy/alarm_rules.h"

#define POLICY_TEXT_MAX (2U << 20)
#define POLICY_RULES_MAX 4096
#define POLICY_NAME_MAX 64
#define POLICY_REASON_MAX 256

struct json_t; /* of jansson */
struct policy;

/* In the order of precedence: a lower layer cannot exceed a higher one. */
enum policy_layer { POLICY_NODE, POLICY_TENANT, POLICY_SESSION, POLICY_LAYERS };
/* The purpose of a rule, for records. Requests of class model are always inspected. */
enum policy_class {
	POLICY_OTHER,
	POLICY_PACKAGES,
	POLICY_DOCS,
	POLICY_API,
	POLICY_MODEL,
	POLICY_CLASSES
};
const char *policy_class_name(enum policy_class c);

enum policy_tls {
	POLICY_TLS_AUTO,      /* terminated if a rule inspects requests, else relayed */
	POLICY_TLS_PASS,      /* never terminated: for clients that pin certificates */
	POLICY_TLS_TERMINATE, /* always terminated */
};

enum policy_choice { POLICY_UNSET, POLICY_NO, POLICY_YES };

/* The limits of a policy (for the session) or of a rule (for everything that the rule allowed). 0:
 * no limit. */
struct policy_limits {
	uint64_t connections;	      /* at a time */
	uint64_t requests_per_minute; /* requests, or connections if requests are not inspected */
	uint64_t bytes_out, bytes_in; /* in total */
	uint64_t body_bytes;	      /* of one request */
};

/* A header that a rule sets. */
struct policy_header {
	const char *name, *value; /* value may hold ${secret.NAME} */
};

/* A rule of the merged document. It lives as long as the policy. */
struct policy_rule {
	const char *name; /* as given, or "session rules[3]". For display, perhaps not unique */
	enum policy_layer layer;
	size_t number; /* its index in the merged document, for tables by rule */
	enum policy_class class;
	bool allow;
	const char *reason; /* "": none was given */
	enum policy_tls tls;
	bool raw; /* "protocol": "tcp": bytes of any kind, none are inspected */
	struct policy_limits limits;
	const struct policy_header *set; /* headers set in requests it allows */
	size_t nset;
	const char *const *secrets; /* names of secrets that may be put into requests it allows */
	size_t nsecrets;
	enum policy_choice websocket; /* may requests become WebSockets? */
	bool prompts;		      /* of model calls: prompt and completion are recorded */
	const void *match;	      /* private to src/lib/policy */
};

/* The target of a connection or request. host: normal form, NULL: an address was used. */
struct policy_target {
	const char *host;
	struct ip ip; /* if host is NULL */
	uint16_t port;
};

/* One request. Path and query as returned by path_normal(). */
struct policy_request {
	bool tls;			   /* over terminated TLS, else plain */
	const char *method, *path, *query; /* query: NULL if there is none */
	const struct http1_header *headers;
	size_t nheaders;
	bool websocket; /* the client asks for a WebSocket */
};

enum policy_verdict {
	POLICY_REFUSE,
	POLICY_PERMIT,
	POLICY_INSPECT, /* the requests decide */
};

/* The decision, with the reason of a refusal. */
struct policy_answer {
	enum policy_verdict verdict;
	const struct policy_rule *rule; /* NULL: the default. With LOOK: the first that may match */
	bool raw; /* of a permitted connection: bytes of any kind are allowed */
	/* A permitted request to a target whose requests are inspected: it must mean the same to
	 * the server as to the rules. */
	bool inspected;
	/* Permitted (or refused without TLS) only because a packages member lists a registry at the
	 * host. rule is NULL, and package_judge.h must judge the requests. */
	bool by_registry;
	/* of a refusal: for the program in the cell and the record */
	char reason[POLICY_REASON_MAX];
};

/* Read a document. layer POLICY_LAYERS: a merged document. A single layer is read with its own
 * rules only: its "extends" is checked here, and policy_merge() adds the presets. Errors name the
 * member and the rule: "rules[3].host: ...". The caller frees *ret. */
int policy_read(const char *text, size_t len, enum policy_layer layer, struct policy **ret,
		struct err *e) MUST_USE;
/* Read a parsed document as policy_read() does. The policy keeps a reference to it. Lockfiles in a
 * layer's document become pins there. The packages member of a merged document is removed. */
int policy_read_json(struct json_t *root, enum policy_layer layer, struct policy **ret,
		     struct err *e) MUST_USE;
void policy_free(struct policy *p);

/* Merge up to three documents, NULL or "" for an absent document. Presets in "extends" are written
 * out here. The caller frees *ret. A document whose session layer is absent, or only extends
 * "none", allows nothing of its own. */
int policy_merge(const char *const layers[POLICY_LAYERS], char **ret, struct err *e) MUST_USE;

/* Call on_rule for each rule that may put secrets into requests to the target, at any port, for any
 * method and path. */
void policy_secrets(const struct policy *p, const struct policy_target *to,
		    void (*on_rule)(const struct policy_rule *rule, void *arg), void *arg);

/* Does this name exist for the session: may anything be allowed there? */
void policy_name(const struct policy *p, const char *host, struct policy_answer *ret);
/* Decide about a connection. PERMIT: the rule allows everything there. Unless it is raw, the
 * connection must be TLS with the name in its ClientHello, or HTTP with the name in Host. */
void policy_connect(const struct policy *p, const struct policy_target *to,
		    struct policy_answer *ret);
/* Decide about a request. The answer is never POLICY_INSPECT. */
void policy_ask(const struct policy *p, const struct policy_target *to,
		const struct policy_request *r, struct policy_answer *ret);

/* Does the rule compare a header of this name? */
bool policy_compares(const struct policy_rule *r, struct http1_span header);

/* May egress connect to this address at all? Public addresses may be reached, and the addresses
 * that the operator named in "private" (metadata services by their exact address only), whatever
 * rules say. */
bool policy_reachable(const struct policy *p, const struct ip *ip);

/* Warn of probable mistakes, one sentence per call: unreachable rules, private addresses that stay
 * unreachable. */
void policy_check(const struct policy *p, void (*on_warning)(const char *text, void *arg),
		  void *arg);

/* An allowed name resolved to this address. Do the rules for addresses deny it? A rule that denies
 * the address counts, unless a rule before it allows the name or the address for all requests.
 * to->host NULL: there is no name. False: *ret_rule denies it. */
bool policy_resolved(const struct policy *p, const struct policy_target *to, const struct ip *ip,
		     const struct policy_rule **ret_rule);

/* Did the operator name exactly this address ("private")? */
bool policy_names(const struct policy *p, const struct ip *ip);

/* The rules of alarms of the document ("alarms"). */
const struct alarm_rule_set *policy_alarms(const struct policy *p);
/* Those of a layer's document as policy_select_read() wrote it. Costs as much as this member: such
 * a document begins with it. "" and other texts have none. */
void policy_alarms_of(const char *document, struct alarm_rule_set *ret);

size_t policy_rules(const struct policy *p);
const struct policy_rule *policy_rule(const struct policy *p, size_t number);
const struct policy_limits *policy_limits(const struct policy *p);
/* Do refused names resolve nevertheless ("refused_names": "answer")? Connections to them are then
 * refused with the reason. */
bool policy_answers_refused(const struct policy *p);
/* Call on_host for every exact host name of an allow rule, in order, and for the hosts of listed
 * registries. */
void policy_each_host(const struct policy *p, void (*on_host)(const char *host, void *arg),
		      void *arg);

/* The proxy of a policy. The layer counts, because layers above it must allow the proxy. */
struct policy_proxy {
	const char *host; /* NULL: no proxy, egress connects directly */
	uint16_t port;
	const char *user, *password; /* "": none */
	enum policy_layer layer;     /* the layer that set it */
};
/* The SOCKS5 proxy for all connections ("proxy"). */
const struct policy_proxy *policy_proxy(const struct policy *p);

/* The document of a preset: "none", "deny", "internet", "pypi", "npm", "debian", "packages",
 * "github-read", "openai", "anthropic". NULL: no such preset. */
const char *policy_preset(const char *name);
/* The name of preset i, counted from 0. NULL: the end. */
const char *policy_preset_name(size_t i, const char **ret_summary);

/* What fuzz_gateway.c makes up around the gateway: policies, limits, secrets, calls of models and
 * TLS. Each answers by what it is asked, so that an input is read the same way every time. */
#include "fuzz.h"

#include <errno.h>

#include "gateway.h"
#include "gateway_base.h"
#include "llm_call.h"
#include "session_limits.h"
#include "packages_policy.h"

#define BYTES_MAX 16384U /* of a connection, each way */

bool outbound_complies(const struct policy *p, const struct policy_target *to, const struct ip *at,
		       struct err *ret_why)
{
	(void)p;
	(void)to;
	(void)at;
	(void)ret_why;
	return true;
}

void policy_ask(const struct policy *p, const struct policy_target *to,
		const struct policy_request *r, struct policy_answer *ret)
{
	(void)p;
	(void)to;
	assert(r->method[0] != '\0' && (r->path[0] == '/' || strcmp(r->path, "*") == 0));
	ret->verdict = strstr(r->path, "refuse") != NULL ? POLICY_REFUSE : POLICY_PERMIT;
}

const struct policy_limits *policy_limits(const struct policy *p)
{
	static const struct policy_limits none;

	(void)p;
	return &none;
}

bool policy_compares(const struct policy_rule *r, struct http1_span header)
{
	(void)r;
	(void)header;
	return false;
}

bool session_limits_request(struct egress_session *s, const struct policy_rule *rule,
			    const char **ret_why)
{
	(void)s;
	(void)rule;
	*ret_why = "";
	return true;
}

uint64_t session_limits_left(struct egress_session *s, const struct policy_rule *rule,
			     enum limit_way way, uint64_t want, const char **ret_why)
{
	(void)rule;
	(void)want;
	*ret_why = "too much";
	return s->used.own.bytes[way] < BYTES_MAX ? BYTES_MAX - s->used.own.bytes[way] : 0;
}

bool session_limits_any_left(struct egress_session *s, const struct policy_rule *rule,
			     const char **ret_why)
{
	return session_limits_left(s, rule, LIMIT_OUT, 1, ret_why) > 0 &&
	       session_limits_left(s, rule, LIMIT_IN, 1, ret_why) > 0;
}

void session_limits_moved(struct egress_session *s, const struct policy_rule *rule,
			  enum limit_way way, uint64_t n)
{
	(void)rule;
	s->used.own.bytes[way] += n;
	assert(s->used.own.bytes[way] <= BYTES_MAX); /* whatever comes: not one byte more */
}

uint64_t resource_share_turn_left(struct resource_share *s)
{
	(void)s;
	return 1;
}

bool resource_share_turn_handshake(struct resource_share *s)
{
	(void)s;
	return true;
}

bool resource_share_memory(struct resource_share *s, size_t before, size_t now)
{
	(void)s;
	(void)before;
	return now < 1 << 20;
}

bool resource_share_take_fds(struct resource_share *s, unsigned n)
{
	(void)s;
	return n > 0;
}

void resource_share_give_fds(struct resource_share *s, unsigned n)
{
	(void)s;
	(void)n;
}

void resource_share_turn_moved(struct resource_share *s, uint64_t n)
{
	(void)s;
	(void)n;
}

bool flow_count_by(struct flow *f, const struct policy_rule *rule, const char **ret_why)
{
	(void)f;
	(void)rule;
	*ret_why = "";
	return true;
}

const struct mask *secrets_mask(const struct secrets *s)
{
	(void)s;
	return NULL;
}

bool secrets_known_there(const struct secrets *s, const struct policy *p,
			 const struct secrets_sent *sent, const struct policy_target *to,
			 struct mask_pick *ret)
{
	(void)s;
	(void)p;
	(void)sent;
	(void)to;
	(void)ret;
	return false;
}

bool secrets_known_also(const struct secrets *s, const struct policy *p,
			const struct secrets_sent *sent, const struct policy_target *to,
			struct mask_pick *ret)
{
	(void)s;
	(void)p;
	(void)sent;
	(void)to;
	(void)ret;
	return false;
}

bool secrets_revoked(const struct secrets *was, const struct secrets *now,
		     const struct secrets_use *u)
{
	(void)was;
	(void)now;
	(void)u;
	return false;
}

int secrets_header(const struct secrets *s, struct secrets_use *u, struct http1_span name,
		   struct http1_span value, char *ret, size_t cap)
{
	(void)s;
	(void)u;
	(void)name;
	if (!http1_span_is(value, "placeholder"))
		return 0;
	assert(cap > 6);
	memcpy(ret, "secret", 6);
	return 6;
}

int secrets_expand(const struct secrets *s, struct secrets_use *u, const char *template, char *ret,
		   size_t cap, struct err *e)
{
	(void)s;
	(void)u;
	(void)template;
	(void)ret;
	(void)cap;
	return err_set(e, ERR_INVALID, "none");
}

bool secrets_wants_body(const struct secrets *s, const struct secrets_use *u,
			struct http1_span content_type)
{
	(void)s;
	(void)u;
	(void)content_type;
	return false;
}

int secrets_body(const struct secrets *s, struct secrets_use *u, struct http1_span content_type,
		 const uint8_t *body, size_t len, uint8_t **ret)
{
	(void)s;
	(void)u;
	(void)content_type;
	(void)body;
	(void)len;
	*ret = NULL;
	return 0;
}

struct llm_call *llm_call_new(const char *path, bool prompts)
{
	(void)path;
	(void)prompts;
	return NULL;
}

void llm_call_free(struct llm_call *m)
{
	(void)m;
}

void llm_call_request(struct llm_call *m, const uint8_t *data, size_t len)
{
	(void)m;
	(void)data;
	(void)len;
}

void llm_call_response(struct llm_call *m, int status, struct http1_span content_type)
{
	(void)m;
	(void)status;
	(void)content_type;
}

void llm_call_answer(struct llm_call *m, const uint8_t *data, size_t len, uint64_t since_ns)
{
	(void)m;
	(void)data;
	(void)len;
	(void)since_ns;
}

size_t llm_call_memory(const struct llm_call *m)
{
	(void)m;
	return 0;
}

void llm_call_write(struct llm_call *m, const struct mask *mask, struct json *j)
{
	(void)mask;
	(void)m;
	(void)j;
}

/* ---- TLS is not spoken here */

struct tls_conn *tls_open(struct tls *t, int fd, const char *host, struct err *e)
{
	(void)t;
	(void)fd;
	(void)host;
	(void)err_set(e, ERR_UNSUPPORTED, "no TLS");
	return NULL;
}

void tls_close(struct tls_conn *c)
{
	assert(c == NULL);
}

void tls_break(struct tls_conn *c)
{
	(void)c;
	abort();
}

int tls_shut(struct tls_conn *c)
{
	(void)c;
	abort();
}

ssize_t tls_read(struct tls_conn *c, void *buf, size_t cap)
{
	(void)c;
	(void)buf;
	(void)cap;
	abort();
}

ssize_t tls_write(struct tls_conn *c, const void *data, size_t len)
{
	(void)c;
	(void)data;
	(void)len;
	abort();
}

int tls_handshake(struct tls_conn *c, struct err *e)
{
	(void)c;
	(void)e;
	abort();
}

bool tls_wants_write(const struct tls_conn *c)
{
	(void)c;
	abort();
}

const struct package_registry *packages_registry(const struct packages_policy *p, const char *host,
						 uint16_t port, const char *path, bool *ret_files)
{
	(void)p;
	(void)host;
	(void)port;
	(void)path;
	*ret_files = false;
	return NULL;
}

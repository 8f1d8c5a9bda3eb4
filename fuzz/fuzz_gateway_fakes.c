/* What fuzz_gateway.c makes up around the gateway: policies, limits, secrets, calls of models and
 * TLS. Each answers by what it is asked, so that an input is read the same way every time. */
#include "fuzz.h"

#include <errno.h>

#include "egress/gateway/gateway.h"
#include "egress/gateway/gateway_base.h"
#include "egress/gateway/llm_call.h"
#include "egress/control/session_limits.h"
#include "lib/policy/packages_policy.h"

#define BYTES_MAX 16384U /* of a connection, each way */

bool outbound_complies(const struct policy *p, const struct policy_target *to, const struct ip *at,
		       struct err *ret_why)
{
	return true;
}

void policy_ask(const struct policy *p, const struct policy_target *to,
		const struct policy_request *r, struct policy_answer *ret)
{
	assert(r->method[0] != '\0' && (r->path[0] == '/' || strcmp(r->path, "*") == 0));
	ret->verdict = strstr(r->path, "refuse") != NULL ? POLICY_REFUSE : POLICY_PERMIT;
}

const struct policy_limits *policy_limits(const struct policy *p)
{
	static const struct policy_limits none;

	return &none;
}

bool policy_compares(const struct policy_rule *r, struct http1_span header)
{
	return false;
}

bool session_limits_request(struct egress_session *s, const struct policy_rule *rule,
			    const char **ret_why)
{
	*ret_why = "";
	return true;
}

uint64_t session_limits_left(struct egress_session *s, const struct policy_rule *rule,
			     enum limit_way way, uint64_t want, const char **ret_why)
{
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
	s->used.own.bytes[way] += n;
	assert(s->used.own.bytes[way] <= BYTES_MAX); /* whatever comes: not one byte more */
}

uint64_t resource_share_turn_left(struct resource_share *s)
{
	return 1;
}

bool resource_share_turn_handshake(struct resource_share *s)
{
	return true;
}

bool resource_share_memory(struct resource_share *s, size_t before, size_t now)
{
	return now < 1 << 20;
}

bool resource_share_take_fds(struct resource_share *s, unsigned n)
{
	return n > 0;
}

void resource_share_give_fds(struct resource_share *s, unsigned n)
{
}

uint64_t resource_share_cpu_ns(void)
{
	return 0;
}

void resource_share_turn_worked(struct resource_share *s, uint64_t since_ns)
{
}

void resource_share_turn_moved(struct resource_share *s, uint64_t n)
{
}

bool flow_count_by(struct flow *f, const struct policy_rule *rule, const char **ret_why)
{
	*ret_why = "";
	return true;
}

const struct mask *secrets_mask(const struct secrets *s)
{
	return NULL;
}

bool secrets_known_there(const struct secrets *s, const struct policy *p,
			 const struct secrets_sent *sent, const struct policy_target *to,
			 struct mask_pick *ret)
{
	return false;
}

bool secrets_known_also(const struct secrets *s, const struct policy *p,
			const struct secrets_sent *sent, const struct policy_target *to,
			struct mask_pick *ret)
{
	return false;
}

void secrets_use_next(struct secrets_use *u, const struct secrets_use *server)
{
	*u = *server;
}

const char *secrets_use_here(const struct secrets_use *u)
{
	return "";
}

void secrets_use_release(struct secrets_use *u)
{
	*u = (struct secrets_use){ .names = NULL };
}

bool secrets_revoked(const struct secrets *was, const struct secrets *now,
		     const struct secrets_use *u)
{
	return false;
}

int secrets_header(const struct secrets *s, struct secrets_use *u, struct http1_span name,
		   struct http1_span value, char *ret, size_t cap)
{
	if (!http1_span_is(value, "placeholder"))
		return 0;
	assert(cap > 6);
	memcpy(ret, "secret", 6);
	return 6;
}

int secrets_expand(const struct secrets *s, struct secrets_use *u, const char *template, char *ret,
		   size_t cap, struct err *e)
{
	return err_set(e, ERR_INVALID, "none");
}

bool secrets_wants_body(const struct secrets *s, const struct secrets_use *u,
			struct http1_span content_type)
{
	return false;
}

int secrets_body(const struct secrets *s, struct secrets_use *u, struct http1_span content_type,
		 const uint8_t *body, size_t len, uint8_t **ret)
{
	*ret = NULL;
	return 0;
}

struct llm_call *llm_call_new(const char *path, bool prompts)
{
	return NULL;
}

void llm_call_free(struct llm_call *m)
{
}

void llm_call_request(struct llm_call *m, const uint8_t *data, size_t len)
{
}

void llm_call_response(struct llm_call *m, int status, struct http1_span content_type)
{
}

void llm_call_answer(struct llm_call *m, const uint8_t *data, size_t len, uint64_t since_ns)
{
}

size_t llm_call_memory(const struct llm_call *m)
{
	return 0;
}

void llm_call_write(struct llm_call *m, const struct mask *mask, struct json *j)
{
}

/* ---- TLS is not spoken here */

struct tls_conn *tls_open(struct tls *t, int fd, const char *host, struct err *e)
{
	(void)err_set(e, ERR_UNSUPPORTED, "no TLS");
	return NULL;
}

void tls_close(struct tls_conn *c)
{
	assert(c == NULL);
}

void tls_break(struct tls_conn *c)
{
	abort();
}

int tls_shut(struct tls_conn *c)
{
	abort();
}

ssize_t tls_read(struct tls_conn *c, void *buf, size_t cap)
{
	abort();
}

ssize_t tls_write(struct tls_conn *c, const void *data, size_t len)
{
	abort();
}

int tls_handshake(struct tls_conn *c, struct err *e)
{
	abort();
}

bool tls_wants_write(const struct tls_conn *c)
{
	abort();
}

const struct package_registry *packages_registry(const struct packages_policy *p, const char *host,
						 uint16_t port, const char *path, bool *ret_files)
{
	*ret_files = false;
	return NULL;
}

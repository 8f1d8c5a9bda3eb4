/* Goal: each bound of what cells, registries and model servers can make cordon-egress hold is kept
 * at its value, and what is one beyond is refused, cut or forgotten as doc/security/bounds.md says.
 */
#include <jansson.h>
#include <sys/socket.h>

#include "edge.h"

#include "egress/control/access_record.h"
#include "lib/base/base64.h"
#include "egress/control/control_out.h"
#include "egress/gateway/deny_page.h"
#include "lib/http/http1.h"
#include "egress/gateway/llm_call.h"
#include "egress/packages/package_changes.h"
#include "egress/packages/package_redirect.h"
#include "egress/packages/package_source.h"
#include "egress/secrets/secrets.h"
#include "egress/secrets/secrets_sent.h"

static char *bytes_of(char byte, size_t n)
{
	char *text = malloc(n + 1);

	CHECK(text != NULL);
	memset(text, byte, n);
	text[n] = '\0';
	return text;
}

static struct http1_span span(const char *text)
{
	return (struct http1_span){ text, strlen(text) };
}

/* ---- refusals */

static void reasons_on_pages(void)
{
	for (size_t more = 0; more < 2; more++) {
		struct buf b = BUF_INIT(DENY_PAGE_MAX);
		struct http1_response r;
		struct http1_fault fault;
		struct http1_span said;
		char *reason = bytes_of('r', 511 + more), *phrase = bytes_of('p', 160 + more);

		deny_page_write(
			&b, &(struct deny_page){ .status = 403, .denied = true, .reason = reason });
		CHECK(http1_response_read(buf_text(&b), b.len, HTTP1_GET, &r, &fault) > 0);
		CHECK(http1_find(r.headers, r.headers_n, "x-cordon-denied", &said) == 1);
		CHECK(said.n == 511);
		buf_clear(&b);
		deny_page_write(&b, &(struct deny_page){
					    .status = 403, .reason = phrase, .package = true });
		CHECK(http1_response_read(buf_text(&b), b.len, HTTP1_GET, &r, &fault) > 0);
		CHECK(r.reason.n == 160);
		free(reason);
		free(phrase);
		buf_release(&b);
	}
}

/* ---- what waits for cordond */

static bool put(struct control_out *o, struct control_out_share *share, size_t n)
{
	char *text = bytes_of('r', n);
	bool done = control_out_record(o, share, "session", text, n);

	free(text);
	return done;
}

/* Records fill the queue up to its bound; what one session may have of it while others use more
 * than half. */
static void records_that_wait(void)
{
	const size_t all = (size_t)8 << 20, share_of_one = all / 16, head = EGRESS_HEAD;
	struct control_out_share flood = { 0 }, two = { 0 }, one = { 0 };
	const struct channel_rules rules = { .peer = "cordond",
					     .framed = true,
					     .keeps_queue = true };
	struct control_out o;
	struct err e;
	struct loop *l = loop_new(&e);

	CHECK(l != NULL);
	channel_init(&o.channel, l, &rules);
	/* To half, in records as long as they may be. */
	while (o.channel.queued <= all / 2 - EGRESS_PROMPT_MAX)
		CHECK(put(&o, &flood, EGRESS_PROMPT_MAX - head));
	while (o.channel.queued <= all / 2)
		CHECK(put(&o, &flood, 1024));
	CHECK(!put(&o, &flood, 1));
	CHECK(put(&o, &one, share_of_one / 2));
	CHECK(put(&o, &one, share_of_one / 2));
	CHECK(!put(&o, &one, 1)); /* one beyond */
	CHECK(put(&o, &two, share_of_one / 2));
	CHECK(!put(&o, &two, share_of_one / 2 + 1));
	CHECK(put(&o, &two, share_of_one / 2));
	/* The queue itself. */
	while (o.channel.queued + head + share_of_one <= all) {
		struct control_out_share another = { 0 };

		CHECK(put(&o, &another, share_of_one - head));
	}
	for (size_t more = 1; more < 2; more--) {
		struct control_out_share another = { 0 };

		CHECK(put(&o, &another, all - o.channel.queued - head + more) == (more == 0));
	}
	CHECK(o.channel.queued == all);
	channel_release(&o.channel);
	loop_free(l);
}

/* ---- registries */

static void targets_of_metadata(void)
{
	for (size_t more = 0; more < 2; more++) {
		char *path = bytes_of('/', PACKAGE_TARGET_MAX - 1 - 4 + more);
		struct package_registry r = { .ecosystem = ECO_NPM, .path = path };
		struct package_request q = { .ecosystem = ECO_NPM,
					     .name = "name",
					     .written = "name" };
		struct package_source source;

		CHECK(package_source_of(&r, &q, &source) == (more == 0));
		CHECK(more > 0 || strlen(source.target) == PACKAGE_TARGET_MAX - 1);
		free(path);
	}
}

static void targets_of_redirects(void)
{
	const struct package_registry r = { .host = { "r.example", 0 }, .path = "/" };
	struct package_hosts hosts;

	CHECK(package_hosts_copy(&hosts, &r, true) == 0);
	for (size_t more = 0; more < 2; more++) {
		struct edge_text t = { 0 };
		struct endpoint to = { .host = "r.example", .port = 443 };
		char target[PACKAGE_REDIRECT_TARGET_MAX], why[POLICY_REASON_MAX];
		unsigned count = 0;

		edge_put(&t, "https://r.example/");
		edge_put_times(&t, "t", PACKAGE_REDIRECT_TARGET_MAX - 2 + more);
		CHECK(package_redirect_read(&hosts, t.p, &count, &to, target, why) == (more == 0));
		CHECK(more > 0 || strlen(target) == PACKAGE_REDIRECT_TARGET_MAX - 1);
		free(t.p);
	}
	package_hosts_release(&hosts);
}

/* A document with n files: their digests end in `digit`, and they are as old as the year says. */
static struct package_meta *document(unsigned n, char digit, const char *year)
{
	const struct package_meta_spec spec = { .doc = DOC_PYPI_SIMPLE, .name = "demo" };
	struct edge_text t = { 0 };
	struct err e = { 0 };
	struct package_meta *m = package_meta_new(&spec, &e);

	edge_put(&t, "{\"meta\":{\"api-version\":\"1.1\"},\"name\":\"demo\",\"files\":[");
	for (unsigned i = 0; i < n; i++) {
		char one[320];

		(void)snprintf(one, sizeof(one),
			       "%s{\"filename\":\"demo-1.%u-py3-none-any.whl\",\"url\":"
			       "\"https://r.example/demo-1.%u-py3-none-any.whl\",\"hashes\":{"
			       "\"sha256\":\"%063u%c\"},\"upload-time\":\"%s-01-01T00:00:00Z\"}",
			       i > 0 ? "," : "", i, i, i, digit, year);
		edge_put(&t, one);
	}
	edge_put(&t, "]}");
	CHECK(m != NULL && package_meta_feed(m, t.p, t.len, &e) == 0);
	CHECK(package_meta_end(m, &e) == 0 && package_meta_count(m) == n);
	free(t.p);
	return m;
}

static void count_one(const struct package_facts *f, void *arg)
{
	++*(unsigned *)arg;
}

/* Of more changed files than are remembered, all count as changed. */
static void files_that_changed(void)
{
	for (unsigned more = 0; more < 2; more++) {
		const unsigned n = PACKAGE_CHANGES_MAX + more;
		struct package_meta *was = document(n, '1', "2020"), *is = document(n, '2', "2020");
		const struct package_changes_pair p = { was, is, 1, 2, false };
		struct package_changes c = { 0 };
		unsigned reported = 0;
		size_t at = 0;

		CHECK(!package_changes_compare(&c, &p, &at, count_one, &reported));
		CHECK(package_changes_is_changed(&c, "demo-1.0-py3-none-any.whl"));
		CHECK(package_changes_is_changed(&c, "demo-9.9-py3-none-any.whl") == (more > 0));
		package_changes_release(&c);
		package_meta_free(was);
		package_meta_free(is);
	}
}

static void files_that_claim_to_be_old(void)
{
	for (unsigned more = 0; more < 2; more++) {
		struct package_meta *was = document(0, '1', "2020");
		struct package_meta *is = document(PACKAGE_CHANGES_MAX + more, '1', "2020");
		const struct package_changes_pair p = { was, is, 1800000000000, 1800000000001,
							false };
		struct package_changes c = { 0 };
		unsigned reported = 0;
		size_t at = 0;

		CHECK(!package_changes_compare(&c, &p, &at, count_one, &reported));
		CHECK(reported == PACKAGE_CHANGES_MAX + more);
		CHECK(package_changes_backdated(&c, "demo-1.31-py3-none-any.whl") == p.now_ms);
		CHECK((package_changes_backdated(&c, "demo-9.9-py3-none-any.whl") != 0) ==
		      (more > 0));
		package_changes_release(&c);
		package_meta_free(was);
		package_meta_free(is);
	}
}

/* ---- secrets */

#define PLACE "cordon_0123456789abcdef0123456789abcdef"

static struct secrets *secrets_of(size_t value)
{
	struct edge_text t = { 0 };
	struct secrets *s = NULL;
	json_t *root;
	struct err e;

	edge_put(&t, "{\"secrets\":[{\"name\":\"API\",\"placeholder\":\"" PLACE
		     "\",\"hosts\":[\"a.test\"],\"in\":[\"header\",\"basic\",\"body:token\"],"
		     "\"value\":\"");
	edge_put_times(&t, "v", value);
	edge_put(&t, "\"}]}");
	root = json_loads(t.p, 0, NULL);
	CHECK(root != NULL && secrets_read(root, &s, &e) == 0);
	json_decref(root);
	free(t.p);
	return s;
}

static struct secrets_use use(void)
{
	return (struct secrets_use){
		.host = "a.test", .method = "POST", .path = "/", .verified_tls = true, .now_ms = 1
	};
}

/* Longer credentials are sent as they are: with the placeholder, which is worth nothing. */
static void credentials_of_basic(void)
{
	struct secrets *s = secrets_of(8);

	for (size_t more = 0; more < 2; more++) {
		const size_t plain = 3072 + more; /* 4096 bytes of base64, or 4100 */
		char *text = bytes_of('u', plain), *ret = malloc(3 * 4096), *value;
		struct secrets_use u = use();
		int n;

		memcpy(text + plain - strlen(PLACE), PLACE, strlen(PLACE));
		value = calloc(1, 6 + BASE64_LENGTH(plain) + 1);
		memcpy(value, "Basic ", 6);
		base64_encode(text, plain, value + 6);
		CHECK(strlen(value) == 6 + 4096 + 4 * more);
		n = secrets_header(s, &u, span("Authorization"), span(value), ret, 3 * 4096);
		CHECK(more == 0 ? n > 0 : n == 0);
		secrets_use_release(&u);
		free(text);
		free(ret);
		free(value);
	}
	secrets_free(s);
}

/* A body of so many bytes with so many places for the value: what is made of it. */
static int body_of(size_t value, size_t len, size_t places)
{
	struct secrets *s = secrets_of(value);
	struct edge_text t = { 0 };
	uint8_t *made = NULL, *exact;
	struct secrets_use u = use();
	int n;

	edge_put(&t, "[");
	edge_put_items(&t, "{\"token\":\"" PLACE "\"}", places);
	edge_put_times(&t, " ", len - t.len - 1);
	edge_put(&t, "]");
	CHECK(t.len == len);
	exact = exact_copy(t.p, len);
	n = secrets_body(s, &u, span("application/json"), exact, len, &made);
	free(exact);
	free(made);
	free(t.p);
	secrets_use_release(&u);
	secrets_free(s);
	return n;
}

/* Longer bodies are sent as they are; one that would become too long is not sent. */
static void bodies_with_secrets(void)
{
	const size_t value = 65000, places = 64, room = (4U << 20) - places * value;

	CHECK(body_of(8, SECRETS_BODY_MAX, 1) > 0);
	CHECK(body_of(8, SECRETS_BODY_MAX + 1, 1) == 0);
	CHECK(body_of(value, room + places * strlen(PLACE), places) == 4 << 20);
	CHECK(body_of(value, room + places * strlen(PLACE) + 1, places) < 0);
}

static void names_of_sent_secrets(void)
{
	for (size_t more = 0; more < 2; more++) {
		char *name = bytes_of('n', SECRETS_SENT_NAME_MAX - 1 + more);
		struct secrets_sent s = { 0 };

		secrets_sent_add(&s, "a.test", name);
		CHECK(secrets_sent_has(&s, "a.test", name) == (more == 0));
		secrets_sent_release(&s);
		free(name);
	}
}

/* ---- model calls */

static char *call(const char *request, const char *answer, bool prompts)
{
	struct llm_call *m = llm_call_new("/v1/chat/completions", prompts);
	struct json j;
	char *ret;

	CHECK(m != NULL);
	llm_call_request(m, (const uint8_t *)request, strlen(request));
	llm_call_response(m, 200, span("application/json"));
	llm_call_answer(m, (const uint8_t *)answer, strlen(answer), 1);
	json_init_heap(&j, (size_t)2 << 20);
	json_open(&j, NULL, '{');
	llm_call_write(m, NULL, &j);
	json_close(&j, '}');
	CHECK(json_ok(&j));
	ret = strndup(j.text, j.len);
	json_release(&j);
	llm_call_free(m);
	return ret;
}

static void names_of_models(void)
{
	for (size_t more = 0; more < 2; more++) {
		struct edge_text t = { 0 };
		char *want = bytes_of('m', 95), *got;

		edge_put(&t, "{\"model\":\"");
		edge_put_times(&t, "m", 95 + more);
		edge_put(&t, "\"}");
		got = call(t.p, "{}", false);
		CHECK_HAS("model", got, want);
		CHECK(strspn(strstr(got, want), "m") == 95);
		free(got);
		free(want);
		free(t.p);
	}
}

static void prompts_that_are_kept(void)
{
	for (size_t more = 0; more < 2; more++) {
		struct edge_text t = { 0 };
		char *got;

		edge_put(&t, "{\"messages\":[{\"role\":\"user\",\"content\":\"");
		edge_put_times(&t, "p", (256 << 10) - strlen("user: ") - strlen("\n") + more);
		edge_put(&t, "\"}]}");
		got = call(t.p, "{}", true);
		CHECK((strstr(got, "\"prompt_cut\":true") != NULL) == (more > 0));
		free(got);
		free(t.p);
	}
}

/* A number whose end is behind the bytes that are searched is not seen. */
static void bytes_that_are_searched(void)
{
	static const char start[] = "{\"x\":\"", end[] = "\",\"usage\":{\"prompt_tokens\":7}";
	const size_t all = 16U << 20;

	for (size_t more = 0; more < 2; more++) {
		struct edge_text t = { 0 };
		char *fill = bytes_of('x', all - strlen(start) - strlen(end) + more), *got;

		edge_put(&t, start);
		edge_put(&t, fill);
		edge_put(&t, end);
		CHECK(t.len == all + more);
		edge_put(&t, "}");
		got = call("{\"model\":\"m\"}", t.p, false);
		CHECK_HAS("tokens", got,
			  more == 0 ? "\"input_tokens\":7" : "\"input_tokens\":null");
		free(got);
		free(fill);
		free(t.p);
	}
}

/* Of a message of a WebSocket each, as a server sends it. */
static void put_count(struct llm_call *m, const char *count)
{
	char text[128];
	uint8_t frame[160] = { 0x81 };
	int n = snprintf(text, sizeof(text), "{\"usage\":{\"prompt_tokens\":%s}}", count);

	frame[1] = (uint8_t)n;
	memcpy(frame + 2, text, (size_t)n);
	llm_call_answer(m, frame, 2 + (size_t)n, 1);
}

static void tokens_of_a_connection(void)
{
	struct llm_call *m = llm_call_new("/v1/chat/completions", false);
	char text[1024];
	struct json j;

	CHECK(m != NULL);
	llm_call_response(m, 101, span(""));
	for (unsigned i = 0; i < 2; i++)
		put_count(m, "500000000000000");
	put_count(m, "1"); /* one beyond */
	json_init(&j, text, sizeof(text));
	json_open(&j, NULL, '{');
	llm_call_write(m, NULL, &j);
	json_close(&j, '}');
	CHECK(json_ok(&j));
	CHECK_HAS("tokens", text, "\"input_tokens\":1000000000000000,");
	llm_call_free(m);
}

TEST_MAIN({ "reasons on pages", reasons_on_pages }, { "records that wait", records_that_wait },
	  { "targets of metadata", targets_of_metadata },
	  { "targets of redirects", targets_of_redirects },
	  { "files that changed", files_that_changed },
	  { "files that claim to be old", files_that_claim_to_be_old },
	  { "credentials of Basic", credentials_of_basic },
	  { "bodies with secrets", bodies_with_secrets },
	  { "names of sent secrets", names_of_sent_secrets },
	  { "names of models", names_of_models },
	  { "prompts that are kept", prompts_that_are_kept },
	  { "bytes that are searched", bytes_that_are_searched },
	  { "tokens of a connection", tokens_of_a_connection })

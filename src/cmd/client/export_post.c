/* export_post.c - items to an OTLP receiver over HTTP.
 *
 * A batch too long for the receiver (413, or EXPORT_BODY_MAX) is halved until it fits. A single too
 * long record ends the export. Busy answers (429, 502 to 504) are tried again after Retry-After.
 * Another refusal ends the export. Items that the receiver refuses in a partial success are counted
 * on stderr and not sent again. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/client/export_sink.h"
#include "cmd/client/member.h"
#include "cmd/client/show.h"
#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "lib/base/str.h"

/* ---- one request. wait_ms tells the caller about the next try: 0 means its own pause,
 * UINT64_MAX means never. */

#define ANSWER_MAX 65536
#define ANSWER_MS 60000

/* The headers usually have a key, so their text is wiped. */
static void otlp_release(struct export_sink *s)
{
	client_free(s->client);
	s->client = NULL;
	explicit_bzero(s->header_text, sizeof(s->header_text));
}

/* The receiver has taken the rest. Sending the refused ones again would not help. */
static void tell_partial(const char *target, const char *text, size_t len)
{
	OWN_JSON *j = json_loadb(text, len, 0, NULL);
	const json_t *partial = member_group(j, "partialSuccess"), *v;
	const char *name, *message = member_text(partial, "errorMessage", "");
	bool any = false;
	json_t *it;

	if (!json_is_object(partial))
		return;
	json_object_foreach((json_t *)(uintptr_t)partial, name, it)
	{
		v = it;
		if (strncmp(name, "rejected", 8) != 0 ||
		    (json_is_integer(v) && json_integer_value(v) == 0) ||
		    (json_is_string(v) && strcmp(json_string_value(v), "0") == 0))
			continue;
		any = true;
		(void)fprintf(stderr, "cordon: %s: the receiver has refused ", target);
		if (json_is_integer(v))
			(void)fprintf(stderr, "%lld", (long long)json_integer_value(v));
		else
			show_text(json_is_string(v) ? json_string_value(v) : "?", stderr);
		(void)fprintf(stderr, " (%s)%s", name, message[0] == '\0' ? "\n" : ": ");
		if (message[0] != '\0') {
			show_text(message, stderr);
			(void)fputc('\n', stderr);
		}
	}
	if (!any && message[0] != '\0') {
		(void)fprintf(stderr, "cordon: %s: the receiver says: ", target);
		show_text(message, stderr);
		(void)fputc('\n', stderr);
	}
}

/* The states in which OTLP asks for another try. */
static bool is_temporary(int status)
{
	return status == 429 || status == 502 || status == 503 || status == 504;
}

/* 0: taken. 1: too long for the receiver. */
static int export_post_post(struct export_sink *s, const char *target, const char *body, size_t len,
			    uint64_t *ret_wait_ms, struct err *e)
{
	const struct client_request r = { .method = "POST",
					  .target = target,
					  .headers = s->headers,
					  .nheaders = s->nheaders,
					  .type = "application/json",
					  .body = body,
					  .body_len = len };
	OWN_MEM char *text = NULL;
	char after[64];
	size_t n = 0;
	int status;

	*ret_wait_ms = 0;
	if (client_send(s->client, &r, e) < 0)
		return -1;
	status = client_status(s->client);
	if (!client_header(s->client, "retry-after", after, sizeof(after)))
		after[0] = '\0';
	if (client_read_all(s->client, ANSWER_MAX, &text, &n, e) < 0)
		return -1;
	if (status >= 200 && status <= 299) {
		tell_partial(target, text, n);
		return 0;
	}
	if (status == 413)
		return 1;
	*ret_wait_ms =
		is_temporary(status) ? export_retry_after(after, clock_wall_ms()) : UINT64_MAX;
	return err_set(e, is_temporary(status) ? ERR_SYSTEM : ERR_DENIED,
		       "%s: the receiver answered %d: %.120s", target, status, n == 0 ? "" : text);
}

/* As export_post_post(). *ret_n: how many the body has. 0: it was not sent. As post(). *ret_n: how
 * many the body has. Take body over. The bound is checked before anything is sent. */
static int post_json(struct export_sink *s, const char *target, json_t *body, size_t n,
		     uint64_t *ret_wait_ms, struct err *e)
{
	OWN_MEM char *text = NULL;
	int done;

	if (body == NULL)
		return err_set(e, ERR_SYSTEM, "out of memory");
	if (n == 0) {
		json_decref(body);
		return 0;
	}
	text = json_dumps(body, JSON_COMPACT);
	json_decref(body);
	if (text == NULL)
		return err_set(e, ERR_SYSTEM, "out of memory");
	if (strlen(text) > EXPORT_BODY_MAX)
		return 1;
	done = export_post_post(s, target, text, strlen(text), ret_wait_ms, e);
	return done;
}

/* Halving ends at single items. The halves are sent one after the other, so the order of items
 * stays. */
static int send_kind(struct export_sink *s, const struct export_node *node, bool traces,
		     const struct export_item *items, size_t n, uint64_t *ret_wait_ms,
		     struct err *e)
{
	const char *target = traces ? "/v1/traces" : "/v1/logs";
	size_t in = 0;
	json_t *body = traces ? export_otlp_traces(node, items, n, &in)
			      : export_otlp_logs(node, items, n, clock_wall_ms(), &in);
	int done = post_json(s, target, body, in, ret_wait_ms, e);

	if (done <= 0)
		return done;
	if (n == 1) {
		*ret_wait_ms = UINT64_MAX;
		return err_set(e, ERR_LIMIT, "%s: one record is too long for the receiver", target);
	}
	return send_kind(s, node, traces, items, n / 2, ret_wait_ms, e) < 0 ||
			       send_kind(s, node, traces, items + n / 2, n - n / 2, ret_wait_ms,
					 e) < 0
		       ? -1
		       : 0;
}

/* Logs before traces. If the second fails, both are sent again: the second time with the same
 * ids. */
static int otlp_send(struct export_sink *s, const struct export_node *node,
		     const struct export_item *items, size_t n, uint64_t *ret_wait_ms,
		     struct err *e)
{
	return send_kind(s, node, false, items, n, ret_wait_ms, e) < 0 ||
			       send_kind(s, node, true, items, n, ret_wait_ms, e) < 0
		       ? -1
		       : 0;
}

/* Metrics are not divided: their number follows from the sessions and from EXPORT_SERIES_MAX. */
static int otlp_metrics(struct export_sink *s, const struct export_node *node,
			const json_t *sessions, const struct export_calls *c, uint64_t *ret_wait_ms,
			struct err *e)
{
	json_t *body = export_otlp_metrics(node, sessions, c, clock_wall_ms());
	int done = post_json(s, "/v1/metrics", body, 1, ret_wait_ms, e);

	return done > 0 ? err_set(e, ERR_LIMIT, "/v1/metrics: too long for the receiver") : done;
}

/* Lines "Name: value". Empty lines and those that begin with # are left out. */
static int read_headers(struct export_sink *s, const char *path, struct err *e)
{
	char *at = s->header_text, *end;

	if (io_read_file(AT_FDCWD, path, s->header_text, sizeof(s->header_text), e) < 0)
		return err_wrap(e, "--headers-from");
	for (; *at != '\0'; at = end) {
		char *colon, *value;

		end = at + strcspn(at, "\r\n");
		if (*end != '\0')
			*end++ = '\0';
		if (*at == '\0' || *at == '#')
			continue;
		colon = strchr(at, ':');
		if (colon == NULL || colon == at || s->nheaders == EXPORT_HEADERS_MAX)
			return err_set(e, ERR_INVALID,
				       "--headers-from: must have at most %d lines Name: value",
				       EXPORT_HEADERS_MAX);
		*colon = '\0';
		value = colon + 1 + strspn(colon + 1, " \t");
		s->headers[s->nheaders++] = (struct client_header){ at, value };
	}
	return 0;
}

/* The receiver is not asked here. Its absence shows at the first batch and is then tried again. */
int export_otlp_open(struct export_sink *s, const char *url, const char *headers,
		     const char *ca_file, struct err *e)
{
	const struct client_options options = { .url = url,
						.ca_file = ca_file,
						.io_ms = ANSWER_MS };

	*s = (struct export_sink){
		.send = otlp_send, .metrics = otlp_metrics, .release = otlp_release, .fd = -1
	};
	if (headers != NULL && read_headers(s, headers, e) < 0)
		return -1;
	s->client = client_new(&options, e);
	return s->client == NULL ? err_wrap(e, "--otlp") : 0;
}

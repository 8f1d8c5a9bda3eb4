/* api_call.c - see api_call.h. The first part finds the server's address and the key, the second
 * sends requests and reads answers, the third joins the pages of a list.
 *
 * Errors from here have a code and a reason that args.c turns into the exit code of the verb. A
 * request is never repeated here: only the caller knows whether that does harm. */
#include "cmd/client/api_call.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cmd/client/member.h"
#include "lib/base/io.h"
#include "lib/base/str.h"

/* ---- where the server is, and with which key. Both are found without a question to the server,
 * so a verb can fail with a clear message before its first request. The key never appears in a
 * message: errors name the place that it came from. */
#define DEFAULT_SERVER "http://127.0.0.1:4983"

/* --server, CORDON_SERVER, or the default. Borrowed. */
static const char *server_address(const struct args_common *o)
{
	const char *set = secure_getenv("CORDON_SERVER");

	if (o->server != NULL)
		return o->server;
	return set != NULL && *set != '\0' ? set : DEFAULT_SERVER;
}

static char key_place[PATH_MAX];

/* Name the place of the key that server_address_key() found. "" if it found none. */
static const char *server_address_key_place(void)
{
	return key_place;
}

/* It becomes a header: letters, digits and '_' keep it one, and keep mistakes (a certificate, a
 * file with several lines) from being sent anywhere. */
static int api_call_check(const char *from, char *key, struct err *e)
{
	size_t n = strcspn(key, "\r\n");

	if (key[n + strspn(key + n, "\r\n")] == '\0')
		key[n] = '\0';
	n = strspn(key, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.");
	if (n == 0 || key[n] != '\0')
		return err_set(e, ERR_INVALID, "%.120s: does not contain an API key", from);
	str_copy(key_place, from);
	return 0;
}

/* 1: read. 0: the file does not exist, or is not readable. */
static int read_key(const char *path, char *ret_key, size_t cap, struct err *e)
{
	if (access(path, R_OK) < 0)
		return 0;
	if (io_read_file(AT_FDCWD, path, ret_key, cap, e) < 0)
		return err_wrap(e, "API key");
	return api_call_check(path, ret_key, e) < 0 ? -1 : 1;
}

/* The first of: --key-file, CORDON_API_KEY, ~/.config/cordon/key, and, for a server on this machine
 * only, the key that one wrote at its first start. None at all is "" and no error, but a named file
 * must exist, and its text must look like a key. */
static int server_address_key(const struct args_common *o, bool local, char *ret_key, size_t cap,
			      struct err *e)
{
	static const char *const places[] = { "~/.config/cordon/key", "/var/lib/cordon/first.key",
					      "~/.local/state/cordon/first.key" };
	const char *set = secure_getenv("CORDON_API_KEY"), *home = secure_getenv("HOME");
	char path[PATH_MAX];

	ret_key[0] = '\0';
	if (o->key_file != NULL) {
		if (io_read_file(AT_FDCWD, o->key_file, ret_key, cap, e) < 0) {
			e->code = ERR_INVALID;
			return err_wrap(e, "--key-file");
		}
		return api_call_check(o->key_file, ret_key, e);
	}
	if (set != NULL && *set != '\0') {
		if (strlen(set) >= cap)
			return err_set(e, ERR_INVALID, "CORDON_API_KEY is too long");
		memcpy(ret_key, set, strlen(set) + 1);
		return api_call_check("CORDON_API_KEY", ret_key, e);
	}
	for (size_t i = 0; i < (local ? COUNT(places) : 1); i++) {
		int found;

		if (places[i][0] == '~' && home == NULL)
			continue;
		(void)snprintf(path, sizeof(path), "%s%s", places[i][0] == '~' ? home : "",
			       places[i] + (places[i][0] == '~'));
		found = read_key(path, ret_key, cap, e);
		if (found != 0)
			return found < 0 ? -1 : 0;
	}
	return 0;
}

/* ---- requests */
#define ERROR_MAX 65536
#define PAGES_MAX 10000

/* Only the key and the address are checked here. A server that is not running shows at the first
 * request. */
int api_call_open(struct api_call *a, const struct args_common *o, uint64_t io_ms, struct err *e)
{
	struct client_options options = { .url = server_address(o),
					  .ca_file = o->ca_file,
					  .insecure = o->insecure,
					  .io_ms = io_ms };
	char key[SERVER_ADDRESS_KEY_MAX];

	*a = (struct api_call){ 0 };
	a->client = client_new(&options, e);
	if (a->client == NULL)
		return -1;
	if (server_address_key(o, client_is_local(a->client), key, sizeof(key), e) < 0) {
		client_free(a->client);
		a->client = NULL;
		return -1;
	}
	if (key[0] != '\0') {
		(void)snprintf(a->authorization, sizeof(a->authorization), "Bearer %s", key);
		a->headers[a->nheaders++] =
			(struct client_header){ "Authorization", a->authorization };
	}
	return 0;
}

/* Parse, then open. A mistake in the command line is told before a missing key. */
int api_call_begin(const struct verb *v, int argc, char **argv, void *fields,
		   struct args_words *ret, size_t min, size_t max, uint64_t io_ms,
		   struct api_call *a, struct err *e)
{
	int code = args_read(v, argc, argv, fields, ret, min, max);

	if (code == ARGS_GO && api_call_open(a, fields, io_ms, e) < 0)
		return args_refused(v, e);
	return code;
}

/* The exit code of the client follows from it (args.h). Statuses without a row are the server's own
 * failures. */
static enum err_code code_of(int status)
{
	static const struct {
		int status;
		enum err_code code;
	} codes[] = {
		{ 400, ERR_INVALID }, { 404, ERR_NOT_FOUND }, { 410, ERR_NOT_FOUND },
		{ 401, ERR_DENIED },  { 403, ERR_DENIED },    { 409, ERR_DENIED },
		{ 413, ERR_DENIED },  { 422, ERR_DENIED },    { 429, ERR_DENIED },
		{ 507, ERR_DENIED },
	};

	for (size_t i = 0; i < COUNT(codes); i++)
		if (codes[i].status == status)
			return codes[i].code;
	return ERR_SYSTEM;
}

/* Read the error object of Cordon's API. An answer of another form comes from another program,
 * such as a proxy, and counts as a failure of the server. The code is kept for callers that
 * handle one refusal in a special way. */
int api_call_refused(struct api_call *a, struct err *e)
{
	OWN_MEM char *text = NULL;
	size_t len = 0;
	struct err unread = { 0 };
	const json_t *error;
	const char *message, *request;

	a->status = client_status(a->client);
	a->code[0] = '\0';
	if (client_read_all(a->client, ERROR_MAX, &text, &len, &unread) < 0)
		return err_set(e, ERR_SYSTEM, "the server answered %d: %.160s", a->status,
			       unread.msg);
	OWN_JSON *answer = json_loadb(text, len, 0, NULL);
	error = member_group(answer, "error");
	message = member_text(error, "message", NULL);
	str_copy(a->code, member_text(error, "code", ""));
	request = member_text(error, "request_id", "?");
	if (message == NULL)
		return err_set(e, ERR_SYSTEM,
			       "the server answered %d, but not as a Cordon server does",
			       a->status);
	if (a->status == 401 && a->nheaders == 0)
		return err_set(e, ERR_DENIED, API_CALL_NO_KEY);
	if (a->status == 401)
		return err_set(e, ERR_DENIED,
			       "the server refuses the API key of %.120s; CORDON_API_KEY or "
			       "--key-file gives another (%.40s, request %.40s)",
			       server_address_key_place(), a->code, request);
	(void)err_set(e, code_of(a->status), "%.190s (%.20s, request %.24s)", message, a->code,
		      request);
	if (a->status == 502 || a->status == 503)
		e->reason = REASON_UNAVAILABLE;
	return -1;
}

/* The common mistakes of a first use: no server, a server without TLS, a certificate of
 * tls_local. The text of the connection error tells them apart. */
void api_call_explain(struct err *e)
{
	static const char begin[] = "cannot connect to ";
	const char *advice = NULL;
	char why[128];

	if (e->reason != REASON_UNAVAILABLE)
		return;
	if (strstr(e->msg, "certificate") != NULL)
		advice = "--ca-file or SSL_CERT_FILE names the certificates to trust (with "
			 "tls_local: tls/ca.pem in the server's state folder)";
	else if (strncmp(e->msg, begin, sizeof(begin) - 1) != 0)
		return;
	else if (strstr(e->msg, "wrong version number") != NULL)
		advice = "the server does not speak TLS: http:// instead?";
	else
		advice = "is the server running (make up, cordon serve)? CORDON_SERVER or "
			 "--server names another";
	(void)snprintf(why, sizeof(why), "%.120s", e->msg);
	(void)err_set_reason(e, REASON_UNAVAILABLE, "%s: %s", why, advice);
}

/* Every request passes here, so a status of an earlier request never survives in a->status. 0
 * means that no answer came at all. */
int api_call_send(struct api_call *a, struct client_request *r, const struct target *t,
		  struct err *e)
{
	r->target = target_text(t, e);
	a->status = 0;
	a->code[0] = '\0';
	if (r->target == NULL)
		return -1;
	r->headers = a->headers;
	r->nheaders = a->nheaders;
	if (client_send(a->client, r, e) < 0) {
		api_call_explain(e);
		return -1;
	}
	a->status = client_status(a->client);
	return a->status < 200 || a->status > 299 ? api_call_refused(a, e) : 0;
}

/* For a person who waits: once for each request, and on a terminal only. */
static void tell_slow(void)
{
	if (isatty(STDERR_FILENO))
		(void)fputs("cordon: waiting for the server...\n", stderr);
}

/* The answer is read whole, up to API_CALL_ANSWER_MAX, before it is parsed. An empty body is no
 * error: ret then stays NULL. */
int api_call_json(struct api_call *a, const char *method, const struct target *t,
		  const json_t *body, json_t **ret, struct err *e)
{
	struct client_request r = { .method = method };
	OWN_MEM char *sent = NULL;
	OWN_MEM char *text = NULL;
	json_error_t wrong;
	size_t len = 0;
	int result;

	if (ret != NULL)
		*ret = NULL;
	if (body != NULL) {
		sent = json_dumps(body, JSON_COMPACT);
		if (sent == NULL)
			return err_set(e, ERR_SYSTEM, "out of memory");
		r.type = "application/json";
		r.body = sent;
		r.body_len = strlen(sent);
	}
	client_on_slow(a->client, tell_slow);
	result = api_call_send(a, &r, t, e);
	if (result == 0)
		result = client_read_all(a->client, API_CALL_ANSWER_MAX, &text, &len, e);
	client_on_slow(a->client, NULL);
	if (result < 0)
		return -1;
	if (ret == NULL || len == 0)
		return 0;
	*ret = json_loadb(text, len, 0, &wrong);
	if (*ret == NULL)
		return err_set(e, ERR_SYSTEM, "the server's answer is not JSON: %.120s",
			       wrong.text);
	return 0;
}

/* These are the states of a restart. Any other status would come again. */
bool api_call_is_temporary(const struct api_call *a)
{
	return a->status == 0 || a->status == 502 || a->status == 503;
}

/* The items are shared with the page, which may be released afterwards. */
static int add_page(json_t *all, const json_t *page, const char *member, size_t max)
{
	const json_t *items = json_object_get(page, member);

	for (size_t i = 0; i < json_array_size(items) && json_array_size(all) < max; i++)
		if (json_array_append(all, json_array_get(items, i)) < 0)
			return -1;
	return 0;
}

/* Where the next page begins, into ret. "" if there is none. */
static void next_position(const json_t *page, char *ret, size_t cap)
{
	const json_t *next = json_object_get(page, "next");

	ret[0] = '\0';
	if (json_is_integer(next))
		(void)snprintf(ret, cap, "%lld", (long long)json_integer_value(next));
	else if (json_is_string(next))
		str_copy_to(ret, cap, json_string_value(next));
}

/* PAGES_MAX bounds a server that never ends its list. Each page shows the list at its own time,
 * so the result need not be the list of one moment. */
int api_call_pages(struct api_call *a, const struct target *t, const char *member,
		   const char *after, size_t max, json_t **ret, struct err *e)
{
	OWN_JSON *all = json_array();
	char position[256] = "", before[sizeof(position)];

	str_copy(position, after == NULL ? "" : after);
	for (unsigned pages = 0; json_array_size(all) < max && pages < PAGES_MAX; pages++) {
		OWN_JSON *page = NULL;
		struct target next = *t;

		target_query(&next, "after", position[0] == '\0' ? NULL : position);
		if (api_call_json(a, "GET", &next, NULL, &page, e) < 0)
			return -1;
		if (add_page(all, page, member, max) < 0)
			return err_set(e, ERR_SYSTEM, "out of memory");
		memcpy(before, position, sizeof(before));
		next_position(page, position, sizeof(position));
		/* An empty page need not be the last. A page whose position is that of the page
		 * before ends the list. */
		if (position[0] == '\0' || strcmp(position, before) == 0)
			break;
	}
	*ret = all;
	all = NULL;
	return 0;
}

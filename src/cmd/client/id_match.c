/* id_match.c - see id_match.h. Called by every verb that names a session or an execution. A
 * wrong guess could end the wrong session, so a word with two meanings is always an error. */
#include "cmd/client/id_match.h"

#include <stdio.h>
#include <string.h>

#include "cmd/client/api_call.h"
#include "cmd/client/member.h"

/* GET of a session or of a part below it, for verbs with one request. The word may be the
 * beginning of an id. */
int session_part_get(const struct args_common *common, const char *word, const char *part,
		     json_t **ret, struct err *e)
{
	OWN_API_CALL a = { 0 };
	char id[ID_MATCH_ID_MAX];
	struct target t;

	if (api_call_open(&a, common, API_CALL_ANSWER_MS, e) < 0 ||
	    id_match_session(&a, word, id, e) < 0)
		return -1;
	id_match_target(&t, id, part);
	return api_call_json(&a, "GET", &t, NULL, ret, e);
}

/* Sessions or executions that are searched for a beginning. */
#define LIST_MAX 10000

/* An id goes into paths and messages, so its characters and its length are checked. ret_id has
 * room for ID_MATCH_ID_MAX bytes. */
static int id_match_take(const char *id, char ret_id[ID_MATCH_ID_MAX], struct err *e)
{
	size_t n = strspn(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-");

	if (n == 0 || id[n] != '\0' || n >= ID_MATCH_ID_MAX)
		return err_set(e, ERR_INVALID, "'%.60s' is not an id", id);
	memcpy(ret_id, id, n + 1);
	return 0;
}

/* How many of the list begin with word. The first is taken. */
static size_t id_match_matches(const json_t *list, const char *word, const char **ret_id)
{
	size_t found = 0;

	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *item = json_array_get(list, i);
		const char *id = member_text(item, "id", "");

		if (strncmp(id, word, strlen(word)) != 0)
			continue;
		if (found++ == 0)
			*ret_id = id;
	}
	return found;
}

/* 1: found. 0: none. Several matches are an error that says how many: a verb must not act on the
 * wrong session. */
static int id_match_search(struct api_call *a, const struct target *t, const char *member,
			   const char *word, char ret_id[ID_MATCH_ID_MAX], struct err *e)
{
	OWN_JSON *list = NULL;
	const char *id = NULL;
	size_t n;

	if (api_call_pages(a, t, member, NULL, LIST_MAX, &list, e) < 0)
		return -1;
	n = id_match_matches(list, word, &id);
	if (n > 1)
		return err_set(e, ERR_INVALID, "'%.40s' matches %zu %s; give more of the id", word,
			       n, member);
	if (n == 0)
		return 0;
	return id_match_take(id, ret_id, e) < 0 ? -1 : 1;
}

/* 404: no such id. 400: the server does not take the word for an id. */
static bool is_unknown(const struct api_call *a)
{
	return a->status == 404 || a->status == 400;
}

/* The word itself first, which costs one request and is the usual case of scripts. Then a search
 * among running sessions, then among ended ones. The server's own refusal is kept for the end. */
int id_match_session(struct api_call *a, const char *word, char ret_id[ID_MATCH_ID_MAX],
		     struct err *e)
{
	static const char *const ended[] = { "false", "true" };
	struct target t;
	struct err unknown = { 0 };

	if (id_match_take(word, ret_id, e) < 0)
		return -1;
	id_match_target(&t, word, NULL);
	if (api_call_json(a, "GET", &t, NULL, NULL, &unknown) == 0)
		return 0;
	for (size_t i = 0; i < COUNT(ended) && is_unknown(a); i++) {
		int found;

		target_init(&t, "/v1/sessions");
		target_query(&t, "ended", ended[i]);
		found = id_match_search(a, &t, "sessions", word, ret_id, e);
		if (found != 0)
			return found < 0 ? -1 : 0;
		a->status = 404;
	}
	*e = unknown;
	return -1;
}

/* Among starts of one millisecond the one further down the list counts. */
static int find_last(struct api_call *a, const char *session, char ret_id[ID_MATCH_ID_MAX],
		     struct err *e)
{
	OWN_JSON *list = NULL;
	const char *id = NULL;
	int64_t last = INT64_MIN;
	struct target t;

	id_match_target(&t, session, "executions");
	if (api_call_pages(a, &t, "executions", NULL, LIST_MAX, &list, e) < 0)
		return -1;
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *x = json_array_get(list, i);
		int64_t at = member_time(x, "started_at");

		if (at >= last) {
			id = member_text(x, "id", "");
			last = at;
		}
	}
	if (id == NULL)
		return err_set(e, ERR_NOT_FOUND, "session %s has run no command", session);
	return id_match_take(id, ret_id, e);
}

/* A full id, or a beginning within the session. Without a word the last one is meant, as in
 * `cordon logs ID`. */
int id_match_execution(struct api_call *a, const char *session, const char *word,
		       char ret_id[ID_MATCH_ID_MAX], struct err *e)
{
	struct target t;
	struct err unknown = { 0 };
	int found;

	if (word == NULL)
		return find_last(a, session, ret_id, e);
	if (id_match_take(word, ret_id, e) < 0)
		return -1;
	id_match_execution_target(&t, session, word, NULL);
	if (api_call_json(a, "GET", &t, NULL, NULL, &unknown) == 0)
		return 0;
	*e = unknown;
	if (!is_unknown(a))
		return -1;
	id_match_target(&t, session, "executions");
	found = id_match_search(a, &t, "executions", word, ret_id, e);
	if (found == 0)
		*e = unknown;
	return found > 0 ? 0 : -1;
}

void id_match_target(struct target *t, const char *session, const char *part)
{
	target_init(t, "/v1/sessions");
	target_part(t, session);
	if (part != NULL)
		target_part(t, part);
}

void id_match_execution_target(struct target *t, const char *session, const char *execution,
			       const char *part)
{
	id_match_target(t, session, "executions");
	target_part(t, execution);
	if (part != NULL)
		target_part(t, part);
}

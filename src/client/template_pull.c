#include "template_pull.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "compose.h"
#include "member.h"
#include "show.h"

static unsigned long long number(const json_t *j, const char *name)
{
	return (unsigned long long)json_integer_value(json_object_get(j, name));
}

/* One line for each layer; the bytes of the one that is being pulled on a terminal only. */
static void show_layer(const char *event, const json_t *j, unsigned long long layers)
{
	bool is_terminal = isatty(STDERR_FILENO) == 1;
	double mib = (double)number(j, "size") / (1 << 20);

	if (strcmp(event, "progress") == 0) {
		if (is_terminal)
			(void)fprintf(stderr, "\r\033[Klayer %llu of %llu: %.1f of %.1f MiB",
				      number(j, "layer"), layers,
				      (double)number(j, "bytes") / (1 << 20), mib);
		return;
	}
	(void)fprintf(stderr, "%slayer %llu of %llu: %.1f MiB%s\n", is_terminal ? "\r\033[K" : "",
		      number(j, "layer"), layers, mib,
		      json_is_true(json_object_get(j, "shared")) ? ", there already" : "");
}

static int take_error(const json_t *j, struct err *e)
{
	const json_t *error = json_object_get(j, "error");
	const char *message = json_string_value(json_object_get(error, "message"));

	return err_set(e, ERR_SYSTEM, "%s", message == NULL ? "the pull failed" : message);
}

/* 1: the end, *ret is set; 0: more follows; -1. */
static int take_event(const struct template_pull *p, const struct client_event *event,
		      unsigned long long *layers, json_t **ret, struct err *e)
{
	OWN_JSON *j = json_loadb(event->data, event->data_len, 0, NULL);

	if (strcmp(event->name, "error") == 0)
		return take_error(j, e);
	if (strcmp(event->name, "template") == 0) {
		*ret = json_incref(j);
		return 1;
	}
	if (strcmp(event->name, "image") == 0) {
		const char *digest = json_string_value(json_object_get(j, "digest"));

		*layers = number(j, "layers");
		if (!p->quiet && digest != NULL && strspn(digest, "sha256:abcdef0123456789") == 71)
			(void)fprintf(stderr, "digest %s, %llu layers, %.1f MiB\n", digest, *layers,
				      (double)number(j, "bytes") / (1 << 20));
	} else if (!p->quiet) {
		show_layer(event->name, j, *layers);
	}
	return 0;
}

static int compose(const struct template_pull *p, json_t *body, struct err *e)
{
	if (compose_text(body, "reference", "the reference", p->reference, e) < 0 ||
	    compose_text(body, "name", "--name", p->name, e) < 0 ||
	    compose_text(body, "secret", "--secret", p->secret, e) < 0)
		return -1;
	return p->tags->n == 0 ? 0
			       : compose_list(body, "tags", "--tag", p->tags->items, p->tags->n, e);
}

int template_pull(struct api_call *a, const struct template_pull *p, json_t **ret, struct err *e)
{
	OWN_JSON *body = json_object();
	struct client_request r = { .method = "POST", .type = "application/json" };
	struct client_event event;
	unsigned long long layers = 0;
	struct target t;
	char *text;
	int n;

	if (compose(p, body, e) < 0)
		return -1;
	text = json_dumps(body, JSON_COMPACT);
	if (text == NULL)
		return err_set(e, ERR_SYSTEM, "out of memory");
	r.body = text;
	r.body_len = strlen(text);
	target_init(&t, "/v1/templates/pull");
	n = api_call_send(a, &r, &t, e);
	free(text);
	if (n < 0)
		return -1;
	while ((n = client_sse_next(a->client, &event, e)) > 0) {
		n = take_event(p, &event, &layers, ret, e);
		if (n != 0)
			return n < 0 ? -1 : 0;
	}
	return n < 0 ? -1 : err_set(e, ERR_SYSTEM, "the server ended the stream");
}

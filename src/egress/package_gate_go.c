/* package_gate_go.c - theory of operation
 *
 * Go's list of versions has no times, so it cannot be shaped by age alone: each version's own
 * document (.info) has its time. Where the policy wants to know times, egress asks for those of the
 * newest TIMES_MAX versions, one after the other; they never change, so the cache has them the next
 * time. Older versions stay in the list, and their files are judged when they are asked for.
 * @latest is answered with the highest of these that is allowed, a release if there is one.
 *
 * A list may have as many versions as a registry likes: the newest are picked in pieces, from the
 * loop, and each version is read once. */
#include "package_gate_base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "advisory_list.h"
#include "clock.h"
#include "gateway_file.h"
#include "go_info.h"
#include "semver.h"

#define TIMES_MAX 32U
#define JUDGED_MAX 1000U /* in one turn; of all others times are asked for */
#define PICKED_MAX 4096U /* versions that are looked at in one turn */
#define INFO_MAX ((size_t)512)

/* A version of the list, in its order. */
struct pick {
	const char *text; /* of the list */
	bool is_release, is_read;
	struct semver version; /* if is_read */
};

struct package_go {
	struct package_gate *gate;
	struct package_document *list; /* held */
	struct loop_task task;
	size_t looked;		      /* at versions of the list */
	struct pick picks[TIMES_MAX]; /* the newest first */
	unsigned npicks;
	unsigned n, at;
	struct package_go_time {
		char version[PACKAGE_VERSION_MAX];
		bool has_time;
		uint64_t time_ms, first_seen_ms;
	} times[TIMES_MAX]; /* the newest first */
	struct buf answer;  /* to @latest */
	size_t sent;
};

static void ask_next(struct package_gate *g);

/* ---- order of versions: "v1.2.3", "v1.2.3-pre" */

/* Releases are before all others: Go takes those first. What is no version is behind all. */
static bool is_newer(const struct pick *a, const struct pick *b)
{
	if (a->is_release != b->is_release)
		return a->is_release;
	if (a->is_read != b->is_read)
		return a->is_read;
	return a->is_read ? semver_compare(&a->version, &b->version) > 0
			  : strcmp(a->text, b->text) > 0;
}

/* ---- which versions */

static void add(struct package_go *go, const char *version)
{
	struct pick p = { .text = version, .is_release = strchr(version, '-') == NULL };
	unsigned low = 0, high = go->npicks;

	p.is_read = semver_read(version, &p.version);
	if (go->npicks == TIMES_MAX && !is_newer(&p, &go->picks[TIMES_MAX - 1]))
		return;
	while (low < high) {
		unsigned mid = low + (high - low) / 2;

		if (is_newer(&p, &go->picks[mid]))
			high = mid;
		else
			low = mid + 1;
	}
	if (go->npicks < TIMES_MAX)
		go->npicks++;
	memmove(&go->picks[low + 1], &go->picks[low],
		(go->npicks - low - 1) * sizeof(go->picks[0]));
	go->picks[low] = p;
}

static void take_picks(struct package_go *go)
{
	for (go->n = 0; go->n < go->npicks; go->n++)
		(void)snprintf(go->times[go->n].version, sizeof(go->times[0].version), "%s",
			       go->picks[go->n].text);
}

static struct package_go_time *find(const struct package_gate *g, const char *version)
{
	for (unsigned i = 0; g->go != NULL && i < g->go->n; i++)
		if (strcmp(g->go->times[i].version, version) == 0)
			return &g->go->times[i];
	return NULL;
}

bool package_gate_go_time(const struct package_gate *g, const char *version,
			  struct package_facts *ret, uint64_t *ret_first_seen)
{
	const struct package_go_time *t = find(g, version);

	if (t == NULL)
		return false;
	*ret = (struct package_facts){
		.version = t->version, .file = "", .has_time = t->has_time, .time_ms = t->time_ms
	};
	*ret_first_seen = t->first_seen_ms;
	return true;
}

static bool judge(const struct package_gate *g, const struct package_go_time *t,
		  struct package_answer *ret)
{
	struct package_request request = g->request;
	struct package_facts facts;
	uint64_t first_seen;
	struct package_question q = { .registry = g->registry,
				      .request = &request,
				      .now_ms = clock_wall_ms(),
				      .advisories = advisory_list() };

	request.kind = PACKAGE_FILE;
	request.form = FORM_GO_ZIP;
	memcpy(request.version, t->version, sizeof(request.version));
	if (package_gate_go_time(g, t->version, &facts, &first_seen)) {
		q.facts = &facts;
		q.first_seen_ms = first_seen;
	}
	package_judge(g->policy, &q, ret);
	return ret->verdict != PACKAGE_REFUSE;
}

/* ---- the answer to @latest */

static ssize_t produce(void *arg, uint8_t *ret, size_t cap)
{
	struct package_go *go = arg;
	size_t n = go->answer.len - go->sent < cap ? go->answer.len - go->sent : cap;

	memcpy(ret, go->answer.data + go->sent, n);
	go->sent += n;
	return (ssize_t)n;
}

static void answer_latest(struct package_gate *g)
{
	struct package_go *go = g->go;
	struct package_answer answer = { 0 };
	struct err e = { 0 };
	unsigned i = 0;

	while (i < go->n && !judge(g, &go->times[i], &answer)) {
		if (g->hidden++ == 0) {
			g->answer = answer;
			memcpy(g->newest_hidden, go->times[i].version, sizeof(g->newest_hidden));
			memcpy(g->hidden_reason, answer.reason, sizeof(answer.reason));
			memcpy(g->rule, answer.rule, sizeof(g->rule));
		}
		i++;
	}
	if (i == go->n) {
		package_gate_refuse_judged(g, NULL);
		return;
	}
	buf_init(&go->answer, INFO_MAX);
	if (go_info_write(go->times[i].version, go->times[i].time_ms, &go->answer, &e) < 0) {
		package_gate_fail(g, 503, e.msg);
		return;
	}
	g->result = PACKAGE_PASSED;
	gateway_defer(g->x);
	gateway_file_serve(g->x, &(struct gateway_content){ .type = "application/json",
							    .fd = -1,
							    .produce = produce,
							    .arg = go });
}

/* ---- times */

static void on_known(struct package_gate *g)
{
	package_document_drop(g->doc);
	g->doc = package_document_hold(g->go->list);
	if (g->request.form == FORM_GO_LATEST)
		answer_latest(g);
	else
		package_gate_shape(g);
}

static void on_seen(struct cache_call *c, struct cache_found *found, const struct err *e)
{
	struct package_gate *g = c->arg;

	(void)e;
	g->go->times[g->go->at++].first_seen_ms = found != NULL ? found->seen_ms : 0;
	ask_next(g);
}

static void ask_seen(struct package_gate *g)
{
	char name[CACHE_NAME_MAX];

	(void)snprintf(name, sizeof(name), "%s@%s", g->request.name,
		       g->go->times[g->go->at].version);
	g->seen.on_done = on_seen;
	g->seen.arg = g;
	cache_seen(
		g->x->session->egress, g->x->session->share.tenant->name, &g->seen,
		&(struct cache_key){ .scope = g->scope, .registry = g->registry_text, .path = "" },
		name);
}

static void on_info(struct package_gate *g)
{
	struct package_go_time *t = &g->go->times[g->go->at];
	struct package_facts f;

	if (g->wait.view->status == 200 && g->doc != NULL &&
	    package_meta_find_version(g->doc->meta, t->version, &f)) {
		t->has_time = f.has_time;
		t->time_ms = f.time_ms;
	}
	ask_seen(g);
}

static void ask_next(struct package_gate *g)
{
	struct package_request one = g->request;
	struct package_source source;

	if (g->go->at == g->go->n) {
		on_known(g);
		return;
	}
	g->asked = 0;
	memcpy(one.version, g->go->times[g->go->at].version, sizeof(one.version));
	if (package_source_of(g->registry, &one, &source)) {
		package_gate_ask(g, &source, true, false, on_info);
		return;
	}
	g->go->at++;
	ask_next(g);
}

/* ---- the list */

/* Does the policy want to know more of it than its name? */
static bool is_asked(const struct package_gate *g, const char *version)
{
	struct package_go_time t = { 0 };
	struct package_answer answer;

	(void)snprintf(t.version, sizeof(t.version), "%s", version);
	(void)judge(g, &t, &answer);
	return answer.verdict == PACKAGE_NEEDS_FACTS || g->request.form == FORM_GO_LATEST;
}

/* The newest versions are picked. */
static void on_picked(struct package_gate *g)
{
	take_picks(g->go);
	if (g->go->n > 0) {
		ask_next(g);
		return;
	}
	if (g->request.form == FORM_GO_LATEST) { /* of commits without a version */
		g->result = PACKAGE_PASSED;
		package_gate_send(g);
		return;
	}
	package_gate_shape(g);
}

static void on_task(struct loop_task *t)
{
	struct package_go *go = t->arg;
	const struct package_meta *list = go->list->meta;
	size_t end = go->looked < JUDGED_MAX ? JUDGED_MAX : go->looked + PICKED_MAX;
	struct package_facts f;

	if (!package_gate_may_work(go->gate)) {
		loop_defer(go->gate->x->loop, t);
		return;
	}
	for (; go->looked < end && go->looked < package_meta_count(list); go->looked++) {
		package_meta_get(list, go->looked, &f);
		if (go->looked >= JUDGED_MAX || is_asked(go->gate, f.version))
			add(go, f.version);
	}
	if (go->looked < package_meta_count(list))
		loop_defer(go->gate->x->loop, t);
	else
		on_picked(go->gate);
}

void package_gate_go(struct package_gate *g)
{
	struct package_go *go = calloc(1, sizeof(*go));

	if (go == NULL) {
		package_gate_fail(g, 503, "out of memory");
		return;
	}
	go->gate = g;
	go->list = package_document_hold(g->doc);
	go->task = (struct loop_task){ .on_run = on_task, .arg = go };
	g->go = go;
	loop_defer(g->x->loop, &go->task);
}

void package_gate_go_end(struct package_gate *g)
{
	struct package_go *go = g->go;

	g->go = NULL;
	if (go == NULL)
		return;
	loop_task_cancel(g->x->loop, &go->task);
	package_document_drop(go->list);
	buf_release(&go->answer);
	free(go);
}

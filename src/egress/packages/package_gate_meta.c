/* package_gate_meta.c - theory of operation
 *
 * The program gets the registry's document with the versions that the policy refuses hidden, so
 * that its resolver chooses an allowed one. The document is always fetched in the form that says
 * most, and written in the requested form. First each version is judged, some in each turn of the
 * loop. Then the document is read a second time, and the output goes to the cell as it reads.
 *
 * If nothing is left, the refusal is made where the client shows it: pip shows refusals of files
 * only, so it sees the page as it is. All others get the reason now. */
#include "egress/packages/package_gate_base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "egress/gateway/gateway_file.h"
#include "lib/base/clock.h"
#include "lib/base/str.h"
#include "lib/packages/go_info.h"
#include "lib/packages/semver.h"

/* ---- lists of Go's versions
 *
 * Go's list of versions has no times, so it cannot be shaped by age alone: each version's own
 * document (.info) has its time. Where the policy wants to know times, egress asks for those of the
 * newest TIMES_MAX versions, one after the other. They never change, so the cache has them the next
 * time. Older versions stay in the list, and their files are judged when they are asked for.
 * @latest is answered with the highest allowed one of these, a release if there is one.
 *
 * A list may have as many versions as a registry likes: the newest are picked in pieces, from the
 * loop, and each version is read once. */

#define TIMES_MAX 32U
#define JUDGED_MAX 1000U /* in one turn. Of all others times are asked for */
#define PICKED_MAX 4096U /* versions looked at in one turn */
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

static void gate_go_ask_next(struct package_gate *g);

/* ---- order of versions: "v1.2.3", "v1.2.3-pre" */

/* Releases are before all others: Go takes those first. Anything else than a version is behind
 * all. */
static bool gate_go_is_newer(const struct pick *a, const struct pick *b)
{
	if (a->is_release != b->is_release)
		return a->is_release;
	if (a->is_read != b->is_read)
		return a->is_read;
	return a->is_read ? semver_compare(&a->version, &b->version) > 0
			  : strcmp(a->text, b->text) > 0;
}

/* ---- which versions */

static void gate_go_add(struct package_go *go, const char *version)
{
	struct pick p = { .text = version, .is_release = strchr(version, '-') == NULL };
	unsigned low = 0, high = go->npicks;

	p.is_read = semver_read(version, &p.version);
	if (go->npicks == TIMES_MAX && !gate_go_is_newer(&p, &go->picks[TIMES_MAX - 1]))
		return;
	while (low < high) {
		unsigned mid = low + (high - low) / 2;

		if (gate_go_is_newer(&p, &go->picks[mid]))
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

static void gate_go_take_picks(struct package_go *go)
{
	for (go->n = 0; go->n < go->npicks; go->n++)
		str_copy(go->times[go->n].version, go->picks[go->n].text);
}

static struct package_go_time *gate_go_find(const struct package_gate *g, const char *version)
{
	for (unsigned i = 0; g->go != NULL && i < g->go->n; i++)
		if (strcmp(g->go->times[i].version, version) == 0)
			return &g->go->times[i];
	return NULL;
}

bool package_gate_go_time(const struct package_gate *g, const char *version,
			  struct package_facts *ret, uint64_t *ret_first_seen)
{
	const struct package_go_time *t = gate_go_find(g, version);

	if (t == NULL)
		return false;
	*ret = (struct package_facts){
		.version = t->version, .file = "", .has_time = t->has_time, .time_ms = t->time_ms
	};
	*ret_first_seen = t->first_seen_ms;
	return true;
}

static bool gate_go_judge(const struct package_gate *g, const struct package_go_time *t,
			  struct package_answer *ret)
{
	struct package_request request = g->request;
	struct package_facts facts;
	uint64_t first_seen;
	struct package_question q = package_gate_question(g, &request);

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

static ssize_t gate_go_produce(void *arg, uint8_t *ret, size_t cap)
{
	struct package_go *go = arg;
	size_t n = go->answer.len - go->sent < cap ? go->answer.len - go->sent : cap;

	memcpy(ret, go->answer.data + go->sent, n);
	go->sent += n;
	return (ssize_t)n;
}

static void gate_go_answer_latest(struct package_gate *g)
{
	struct package_go *go = g->go;
	struct package_answer answer = { 0 };
	struct err e = { 0 };
	unsigned i = 0;

	while (i < go->n && !gate_go_judge(g, &go->times[i], &answer)) {
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
	g->result = PACKAGE_RESULT_PASSED;
	gateway_defer(g->x);
	gateway_file_serve(g->x, &(struct gateway_content){ .type = "application/json",
							    .fd = -1,
							    .produce = gate_go_produce,
							    .arg = go });
}

/* ---- times */

static void on_known(struct package_gate *g)
{
	package_document_drop(g->doc);
	g->doc = package_document_hold(g->go->list);
	if (g->request.form == FORM_GO_LATEST)
		gate_go_answer_latest(g);
	else
		package_gate_shape(g);
}

static void on_seen(struct cache_call *c, struct cache_found *found, const struct err *e)
{
	struct package_gate *g = c->arg;

	g->go->times[g->go->at++].first_seen_ms = found != NULL ? found->seen_ms : 0;
	gate_go_ask_next(g);
}

static void gate_go_ask_seen(struct package_gate *g)
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
	gate_go_ask_seen(g);
}

static void gate_go_ask_next(struct package_gate *g)
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
	gate_go_ask_next(g);
}

/* ---- the list */

/* Does the policy want to know more of it than its name? */
static bool gate_go_is_asked(const struct package_gate *g, const char *version)
{
	struct package_go_time t = { 0 };
	struct package_answer answer;

	str_copy(t.version, version);
	(void)gate_go_judge(g, &t, &answer);
	return answer.verdict == PACKAGE_NEEDS_FACTS || g->request.form == FORM_GO_LATEST;
}

/* The newest versions are picked. */
static void on_picked(struct package_gate *g)
{
	gate_go_take_picks(g->go);
	if (g->go->n > 0) {
		gate_go_ask_next(g);
		return;
	}
	if (g->request.form == FORM_GO_LATEST) { /* of commits without a version */
		g->result = PACKAGE_RESULT_PASSED;
		package_gate_send(g);
		return;
	}
	package_gate_shape(g);
}

static void on_go_task(struct loop_task *t)
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
		if (go->looked >= JUDGED_MAX || gate_go_is_asked(go->gate, f.version))
			gate_go_add(go, f.version);
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
	go->task = (struct loop_task){ .on_run = on_go_task, .arg = go };
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

#define PIECE ((size_t)16 * 1024)
#define JUDGED_AT_ONCE 200U
/* The cost of writing an answer, in the turn of a session: for each byte read, and for each tag
 * whose version is hidden. */
#define SHAPED_WEIGHT 4U
#define SEARCH_BYTES ((uint64_t)8 * 1024)

struct package_shaping {
	struct package_gate *gate;
	struct package_shape *shape; /* owned */
	enum package_shape_as as;
	bool shows_all; /* pip: the files' refusals explain */
	/* For versions refused by something else than being no pin. "": none. */
	char refused[PACKAGE_VERSION_MAX];
	struct loop_task task;
	struct buf out; /* made, and not sent */
	size_t at;	/* of it: sent */
	uint64_t raw_at;
	bool ended;
};

/* ---- which document, in which form */

bool package_gate_accepts(const struct package_gate *g, const char *type)
{
	const struct gateway *x = g->x;
	struct http1_span accept = { 0 };

	return http1_find(x->r.headers, x->r.headers_n, "accept", &accept) > 0 &&
	       memmem(accept.p, accept.n, type, strlen(type)) != NULL;
}

static enum package_shape_as gate_meta_form_of(const struct package_gate *g)
{
	enum package_form form = g->request.form;

	if (form == FORM_NPM_ONE)
		return SHAPE_NPM_ONE;
	if (form == FORM_NPM_PACKUMENT &&
	    package_gate_accepts(g, "application/vnd.npm.install-v1+json"))
		return SHAPE_NPM_SHORT;
	if (form == FORM_PYPI_SIMPLE && !package_gate_accepts(g, "+json"))
		return SHAPE_PYPI_HTML;
	return SHAPE_SAME;
}

bool package_gate_shapes(const struct package_gate *g, struct package_source *ret)
{
	static const enum package_form shaped[] = { FORM_NPM_PACKUMENT, FORM_NPM_ONE,
						    FORM_PYPI_SIMPLE,	FORM_CARGO_INDEX,
						    FORM_GO_LIST,	FORM_GO_LATEST };
	struct package_request name = g->request;

	if (g->registry == NULL)
		return false;
	name.version[0] = '\0'; /* all versions */
	for (size_t i = 0; i < COUNT(shaped); i++)
		if (g->request.form == shaped[i])
			return package_source_of(g->registry, &name, ret);
	if (g->request.form != FORM_PYPI_JSON && g->request.form != FORM_PYPI_JSON_ONE)
		return false;
	*ret = (struct package_source){ .doc = DOC_PYPI_LEGACY, .accept = "application/json" };
	return str_copy(ret->target, g->x->path);
}

/* ---- which versions */

static void gate_meta_request_of(const struct package_gate *g, const struct package_facts *f,
				 struct package_request *ret)
{
	size_t n = strlen(f->file);

	*ret = g->request;
	ret->kind = PACKAGE_FILE;
	ret->form = FORM_NONE;
	str_copy(ret->version, f->version);
	str_copy(ret->file, f->file);
	ret->source =
		g->request.ecosystem == ECO_PYPI && (n < 4 || strcmp(f->file + n - 4, ".whl") != 0);
}

static bool gate_meta_is_changed(const struct package_gate *g, const struct package_facts *f)
{
	return g->wait.view != NULL &&
	       package_view_is_changed(g->wait.view, f->file[0] != '\0' ? f->file : f->version);
}

/* "session packages.mode": the version is not pinned. */
static bool gate_meta_is_mode(const char *rule)
{
	const char *member = strchr(rule, ' ');

	return member != NULL && strcmp(member, " packages.mode") == 0;
}

static bool gate_meta_allow(const struct package_facts *f, char *reason, void *arg)
{
	struct package_gate *g = arg;
	struct package_request request;
	struct package_answer answer;
	struct package_facts of_go;
	struct package_question q;

	if (g->shaping != NULL && g->shaping->shows_all)
		return true;
	gate_meta_request_of(g, f, &request);
	q = package_gate_question(g, &request);
	q.facts = f;
	q.now_ms = g->now_ms;
	q.is_in_list = true;
	reason[0] = '\0';
	if (package_meta_quarantined(g->doc->meta)) {
		(void)snprintf(reason, PACKAGE_REASON_MAX,
			       "the registry has put %.100s into quarantine", g->request.written);
		return false;
	}
	if (gate_meta_is_changed(g, f)) {
		(void)snprintf(reason, PACKAGE_REASON_MAX,
			       "%.60s %.40s: the registry changed what it says of it",
			       g->request.written, f->version);
		return false;
	}
	if (g->wait.view != NULL) {
		q.first_seen_ms =
			package_changes_backdated(&g->wait.view->changes, package_changes_name(f));
		q.is_backdated = q.first_seen_ms != 0;
		g->backdated = g->backdated || q.is_backdated;
	}
	if (g->request.ecosystem == ECO_GO) /* the list says nothing but the version */
		q.facts = package_gate_go_time(g, f->version, &of_go, &q.first_seen_ms) ? &of_go
											: NULL;
	package_judge(g->policy, &q, &answer);
	if (answer.verdict != PACKAGE_REFUSE)
		return true;
	str_copy_to(reason, PACKAGE_REASON_MAX, answer.reason);
	str_copy(g->rule, answer.rule);
	if (g->shaping != NULL && !gate_meta_is_mode(g->rule))
		str_copy(g->shaping->refused, f->version);
	return false;
}

/* ---- sending it */

static struct resource_share *gate_meta_share_of(const struct package_shaping *s)
{
	return &s->gate->x->session->share;
}

/* Make the next bytes. -1: the document cannot be shaped. */
static int gate_meta_make_more(struct package_shaping *s)
{
	static uint8_t piece[PIECE];
	struct err e = { 0 };
	ssize_t n = pread(s->gate->doc->fd, piece, sizeof(piece), (off_t)s->raw_at);
	int made;

	buf_clear(&s->out);
	s->at = 0;
	if (n < 0)
		return -1;
	if (n == 0) {
		s->ended = true;
		return package_shape_end(s->shape, &s->out, &e);
	}
	s->raw_at += (uint64_t)n;
	made = package_shape_feed(s->shape, piece, (size_t)n, &s->out, &e);
	resource_share_turn_moved(gate_meta_share_of(s),
				  (uint64_t)n * SHAPED_WEIGHT +
					  package_shape_searches(s->shape) * SEARCH_BYTES);
	return made;
}

static ssize_t gate_meta_produce(void *arg, uint8_t *ret, size_t cap)
{
	struct package_shaping *s = arg;
	size_t n;

	while (s->at == s->out.len) {
		if (s->ended)
			return 0;
		if (resource_share_turn_left(gate_meta_share_of(s)) == 0) { /* others first */
			loop_defer(s->gate->x->loop, &s->task);
			return GATEWAY_CONTENT_LATER;
		}
		if (gate_meta_make_more(s) < 0)
			return -1;
	}
	n = s->out.len - s->at < cap ? s->out.len - s->at : cap;
	memcpy(ret, s->out.data + s->at, n);
	s->at += n;
	return (ssize_t)n;
}

static void gate_meta_serve(struct package_shaping *s)
{
	struct package_gate *g = s->gate;
	char etag[PACKAGE_ETAG_MAX];

	package_shape_etag(s->shape, &g->doc->raw, etag);
	g->result = PACKAGE_RESULT_PASSED;
	gateway_defer(g->x);
	gateway_file_serve(g->x, &(struct gateway_content){ .type = package_shape_type(s->shape),
							    .etag = etag,
							    .fd = -1,
							    .produce = gate_meta_produce,
							    .arg = s });
}

/* ---- judging it */

static void on_task(struct loop_task *t);

/* False: out of memory. */
static bool gate_meta_new_shape(struct package_shaping *s)
{
	struct package_gate *g = s->gate;
	const struct package_shape_spec spec = { .meta = g->doc->meta,
						 .as = s->as,
						 .which = g->request.version,
						 .allow = gate_meta_allow,
						 .arg = g };
	struct err e;

	package_shape_free(s->shape);
	s->shape = package_shape_new(&spec, &e);
	return s->shape != NULL;
}

/* Why a version is hidden. "": the document does not have it. */
static void gate_meta_explain(struct package_gate *g, const char *version,
			      char reason[PACKAGE_SHAPE_REASON_MAX])
{
	struct package_facts f;

	reason[0] = '\0';
	if (package_meta_find_version(g->doc->meta, version, &f))
		(void)gate_meta_allow(&f, reason, g);
}

/* The version whose refusal explains best that nothing is allowed: the requested one, or the one of
 * the tag requested or taken by clients by themselves, or the newest. */
static const char *gate_meta_wanted(const struct package_gate *g, const char *newest)
{
	const char *which = g->request.form == FORM_NPM_ONE ? g->request.version : "latest";
	const char *tagged = package_meta_tag(g->doc->meta, which);
	struct package_facts f;

	if (package_meta_find_version(g->doc->meta, which, &f))
		return f.version;
	return tagged != NULL && package_meta_find_version(g->doc->meta, tagged, &f) ? f.version
										     : newest;
}

/* newest: of all, borrowed from the document. */
static void gate_meta_refuse_all(struct package_gate *g, const char *newest)
{
	char refused[PACKAGE_VERSION_MAX], reason[PACKAGE_SHAPE_REASON_MAX], why[POLICY_REASON_MAX];
	bool one = g->request.form == FORM_NPM_ONE;

	memcpy(refused, g->shaping->refused, sizeof(refused));
	gate_meta_explain(g, gate_meta_wanted(g, newest), reason);
	if (!one && refused[0] != '\0' && gate_meta_is_mode(g->rule))
		gate_meta_explain(g, refused, reason);
	str_copy(g->answer.rule, g->rule);
	if (reason[0] == '\0')
		(void)snprintf(why, sizeof(why), "no version is allowed of %.140s",
			       g->request.written);
	else
		(void)snprintf(why, sizeof(why), "%s%s",
			       one ? "" : "no version is allowed: ", reason);
	package_gate_refuse_judged(g, why);
}

/* One version was asked for by its number, and is shown: others do not matter. */
static bool gate_meta_is_exact(const struct package_gate *g, const struct package_shape_result *r)
{
	return r->one != NULL && strcmp(r->one, g->request.version) == 0;
}

/* For the record: clients show no reason for a version that they do not see. */
static void gate_meta_note_hidden(struct package_gate *g, const struct package_shape_result *r)
{
	g->hidden = r->hidden;
	g->rule[0] = '\0';
	str_copy(g->newest_hidden, r->newest_hidden);
	if (r->hidden > 0)
		package_shape_why(g->shaping->shape, g->hidden_reason);
}

/* All versions are judged. */
static void on_judged(struct package_shaping *s)
{
	struct package_gate *g = s->gate;
	struct package_shape_result r;

	package_shape_result(s->shape, &r);
	if (!s->shows_all && !gate_meta_is_exact(g, &r))
		gate_meta_note_hidden(g, &r);
	if (s->as == SHAPE_NPM_ONE && r.one == NULL && !r.one_hidden) {
		package_gate_fail(g, 404, "the registry does not have this version");
		return;
	}
	if ((s->as == SHAPE_NPM_ONE && r.one == NULL) || (r.shown == 0 && r.hidden > 0)) {
		if (g->request.ecosystem != ECO_PYPI) {
			gate_meta_refuse_all(g, r.newest_hidden);
			return;
		}
		if (!s->shows_all) {
			s->shows_all = true;
			g->hidden = 0;
			if (gate_meta_new_shape(s))
				loop_defer(g->x->loop, &s->task);
			else
				package_gate_fail(g, 503, "out of memory");
			return;
		}
	}
	gate_meta_serve(s);
}

static void on_task(struct loop_task *t)
{
	struct package_shaping *s = t->arg;

	if (s->gate->result == PACKAGE_RESULT_PASSED) { /* it is being sent */
		gateway_file_resume(s->gate->x);
		return;
	}
	if (!package_gate_may_work(s->gate) || package_shape_judge(s->shape, JUDGED_AT_ONCE) > 0)
		loop_defer(s->gate->x->loop, &s->task);
	else
		on_judged(s);
}

void package_gate_shape(struct package_gate *g)
{
	struct package_shaping *s = calloc(1, sizeof(*s));

	if (s == NULL) {
		package_gate_fail(g, 503, "out of memory");
		return;
	}
	g->shaping = s;
	g->now_ms = clock_wall_ms();
	s->gate = g;
	s->as = gate_meta_form_of(g);
	s->task = (struct loop_task){ .on_run = on_task, .arg = s };
	buf_init(&s->out, PACKAGE_SHAPE_ROOM(PIECE));
	if (gate_meta_new_shape(s))
		loop_defer(g->x->loop, &s->task);
	else
		package_gate_fail(g, 503, "out of memory");
}

static void on_view(struct package_gate *g)
{
	const struct package_view *v = g->wait.view;

	if (v->status != 200 || g->doc == NULL)
		package_gate_no_view(g, v);
	else if (g->request.ecosystem == ECO_GO)
		package_gate_go(g);
	else
		package_gate_shape(g);
}

void package_gate_meta(struct package_gate *g, const struct package_source *source)
{
	package_gate_ask(g, source, false, true, on_view);
}

size_t package_gate_memory(const struct gateway *x)
{
	const struct package_gate *g = x->package;

	if (g->shaping == NULL)
		return sizeof(*g);
	return sizeof(*g) + sizeof(*g->shaping) + g->shaping->out.size +
	       (g->shaping->shape == NULL ? 0 : package_shape_memory(g->shaping->shape));
}

void package_gate_meta_end(struct package_gate *g)
{
	struct package_shaping *s = g->shaping;

	if (s == NULL)
		return;
	g->shaping = NULL;
	loop_task_cancel(g->x->loop, &s->task);
	package_shape_free(s->shape);
	buf_release(&s->out);
	free(s);
}

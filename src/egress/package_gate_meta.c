/* package_gate_meta.c - theory of operation
 *
 * The program gets the registry's document with the versions that the policy refuses hidden, so
 * that its resolver chooses one that is allowed. The document is always fetched in the form that
 * says most, and written in the form that was asked for. First each version is judged, some in each
 * turn of the loop; then the document is read a second time, and what comes out goes to the cell as
 * it reads.
 *
 * If nothing is left, the refusal is made where the client shows it: pip shows refusals of files
 * only, so it sees the page as it is; all others get the reason now. */
#include "package_gate_base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "advisory_list.h"
#include "clock.h"
#include "gateway_file.h"

#define PIECE ((size_t)16 * 1024)
#define JUDGED_AT_ONCE 200U

struct package_shaping {
	struct package_gate *gate;
	struct package_shape *shape; /* owned */
	enum package_shape_as as;
	bool shows_all; /* pip: the files' refusals explain */
	/* Of the versions that are refused by something else than being no pin; "": none. */
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

static enum package_shape_as form_of(const struct package_gate *g)
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
	return snprintf(ret->target, sizeof(ret->target), "%s", g->x->path) <
	       (int)sizeof(ret->target);
}

/* ---- which versions */

static void request_of(const struct package_gate *g, const struct package_facts *f,
		       struct package_request *ret)
{
	size_t n = strlen(f->file);

	*ret = g->request;
	ret->kind = PACKAGE_FILE;
	ret->form = FORM_NONE;
	(void)snprintf(ret->version, sizeof(ret->version), "%s", f->version);
	(void)snprintf(ret->file, sizeof(ret->file), "%s", f->file);
	ret->source =
		g->request.ecosystem == ECO_PYPI && (n < 4 || strcmp(f->file + n - 4, ".whl") != 0);
}

static bool is_changed(const struct package_gate *g, const struct package_facts *f)
{
	return g->wait.view != NULL &&
	       package_view_is_changed(g->wait.view, f->file[0] != '\0' ? f->file : f->version);
}

/* "session packages.mode": the version is not pinned. */
static bool is_mode(const char *rule)
{
	const char *member = strchr(rule, ' ');

	return member != NULL && strcmp(member, " packages.mode") == 0;
}

static bool allow(const struct package_facts *f, char *reason, void *arg)
{
	struct package_gate *g = arg;
	struct package_request request;
	struct package_answer answer;
	struct package_facts of_go;
	struct package_question q = { .advisories = advisory_list(),
				      .registry = g->registry,
				      .request = &request,
				      .facts = f,
				      .now_ms = g->now_ms,
				      .is_in_list = true };

	if (g->shaping != NULL && g->shaping->shows_all)
		return true;
	reason[0] = '\0';
	if (package_meta_quarantined(g->doc->meta)) {
		(void)snprintf(reason, PACKAGE_REASON_MAX,
			       "the registry has put %.100s into quarantine", g->request.written);
		return false;
	}
	if (is_changed(g, f)) {
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
	request_of(g, f, &request);
	package_judge(g->policy, &q, &answer);
	if (answer.verdict != PACKAGE_REFUSE)
		return true;
	(void)snprintf(reason, PACKAGE_REASON_MAX, "%s", answer.reason);
	(void)snprintf(g->rule, sizeof(g->rule), "%s", answer.rule);
	if (g->shaping != NULL && !is_mode(g->rule))
		(void)snprintf(g->shaping->refused, sizeof(g->shaping->refused), "%s", f->version);
	return false;
}

/* ---- sending it */

/* Makes the next bytes. -1: the document cannot be shaped. */
static int make_more(struct package_shaping *s)
{
	static uint8_t piece[PIECE];
	struct err e = { 0 };
	ssize_t n = pread(s->gate->doc->fd, piece, sizeof(piece), (off_t)s->raw_at);

	buf_clear(&s->out);
	s->at = 0;
	if (n < 0)
		return -1;
	if (n == 0) {
		s->ended = true;
		return package_shape_end(s->shape, &s->out, &e);
	}
	s->raw_at += (uint64_t)n;
	return package_shape_feed(s->shape, piece, (size_t)n, &s->out, &e);
}

static ssize_t produce(void *arg, uint8_t *ret, size_t cap)
{
	struct package_shaping *s = arg;
	size_t n;

	for (int i = 0; s->at == s->out.len; i++) {
		if (s->ended)
			return 0;
		if (i == 16) { /* nothing comes out of so many bytes: others first */
			loop_defer(s->gate->x->loop, &s->task);
			return GATEWAY_CONTENT_LATER;
		}
		if (make_more(s) < 0)
			return -1;
	}
	n = s->out.len - s->at < cap ? s->out.len - s->at : cap;
	memcpy(ret, s->out.data + s->at, n);
	s->at += n;
	return (ssize_t)n;
}

static void serve(struct package_shaping *s)
{
	struct package_gate *g = s->gate;
	char etag[PACKAGE_ETAG_MAX];

	package_shape_etag(s->shape, &g->doc->raw, etag);
	g->result = PACKAGE_PASSED;
	gateway_defer(g->x);
	gateway_file_serve(g->x, &(struct gateway_content){ .type = package_shape_type(s->shape),
							    .etag = etag,
							    .fd = -1,
							    .produce = produce,
							    .arg = s });
}

/* ---- judging it */

static void on_task(struct loop_task *t);

/* False: out of memory. */
static bool new_shape(struct package_shaping *s)
{
	struct package_gate *g = s->gate;
	const struct package_shape_spec spec = { .meta = g->doc->meta,
						 .as = s->as,
						 .which = g->request.version,
						 .allow = allow,
						 .arg = g };
	struct err e;

	package_shape_free(s->shape);
	s->shape = package_shape_new(&spec, &e);
	return s->shape != NULL;
}

/* Why a version is hidden; "": the document does not have it. */
static void explain(struct package_gate *g, const char *version,
		    char reason[PACKAGE_SHAPE_REASON_MAX])
{
	struct package_facts f;

	reason[0] = '\0';
	if (package_meta_find_version(g->doc->meta, version, &f))
		(void)allow(&f, reason, g);
}

/* The version whose refusal explains best that nothing is allowed: the one that was asked for, or
 * to which the tag leads that is asked for or that clients take by themselves, or the newest. */
static const char *wanted(const struct package_gate *g, const char *newest)
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
static void refuse_all(struct package_gate *g, const char *newest)
{
	char refused[PACKAGE_VERSION_MAX], reason[PACKAGE_SHAPE_REASON_MAX], why[POLICY_REASON_MAX];
	bool one = g->request.form == FORM_NPM_ONE;

	memcpy(refused, g->shaping->refused, sizeof(refused));
	explain(g, wanted(g, newest), reason);
	if (!one && refused[0] != '\0' && is_mode(g->rule))
		explain(g, refused, reason);
	(void)snprintf(g->answer.rule, sizeof(g->answer.rule), "%s", g->rule);
	if (reason[0] == '\0')
		(void)snprintf(why, sizeof(why), "no version is allowed of %.140s",
			       g->request.written);
	else
		(void)snprintf(why, sizeof(why), "%s%s",
			       one ? "" : "no version is allowed: ", reason);
	package_gate_refuse_judged(g, why);
}

/* One version was asked for by its number, and is shown: others do not matter. */
static bool is_exact(const struct package_gate *g, const struct package_shape_result *r)
{
	return r->one != NULL && strcmp(r->one, g->request.version) == 0;
}

/* For the record: clients show no reason for a version that they do not see. */
static void note_hidden(struct package_gate *g, const struct package_shape_result *r)
{
	g->hidden = r->hidden;
	g->rule[0] = '\0';
	(void)snprintf(g->newest_hidden, sizeof(g->newest_hidden), "%s", r->newest_hidden);
	if (r->hidden > 0)
		package_shape_why(g->shaping->shape, g->hidden_reason);
}

/* All versions are judged. */
static void on_judged(struct package_shaping *s)
{
	struct package_gate *g = s->gate;
	struct package_shape_result r;

	package_shape_result(s->shape, &r);
	if (!s->shows_all && !is_exact(g, &r))
		note_hidden(g, &r);
	if (s->as == SHAPE_NPM_ONE && r.one == NULL && !r.one_hidden) {
		package_gate_fail(g, 404, "the registry does not have this version");
		return;
	}
	if ((s->as == SHAPE_NPM_ONE && r.one == NULL) || (r.shown == 0 && r.hidden > 0)) {
		if (g->request.ecosystem != ECO_PYPI) {
			refuse_all(g, r.newest_hidden);
			return;
		}
		if (!s->shows_all) {
			s->shows_all = true;
			g->hidden = 0;
			if (new_shape(s))
				loop_defer(g->x->loop, &s->task);
			else
				package_gate_fail(g, 503, "out of memory");
			return;
		}
	}
	serve(s);
}

static void on_task(struct loop_task *t)
{
	struct package_shaping *s = t->arg;

	if (s->gate->result == PACKAGE_PASSED) { /* it is being sent */
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
	s->as = form_of(g);
	s->task = (struct loop_task){ .on_run = on_task, .arg = s };
	buf_init(&s->out, PACKAGE_SHAPE_ROOM(PIECE));
	if (new_shape(s))
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

/* Goal: each bound of what cordon-egress reports to cordond, and of what a session's policy is
 * asked, holds at its value and one beyond: the reporter may be one that was taken over. */
#include "edge.h"

#include "lib/policy/access_record_text.h"
#include "lib/policy/lockfiles_fold.h"
#include "package_policy.h"
#include "lib/policy/policy_private.h"
#include "lib/policy/policy_select.h"

static bool record(const char *text, size_t len, struct err *e)
{
	struct access_record_text r;
	OWN_MEM char *clean = NULL;

	return access_record_text_read(text, len, &r, &clean, e) == 0;
}

static bool counts(const char *text, size_t len, struct err *e)
{
	struct record_counts r;

	return access_record_text_counts(text, len, &r, e) == 0;
}

static bool turns(const char *text, size_t len, struct err *e)
{
	struct record_turns r;

	return access_record_text_turns(text, len, &r, e) == 0;
}

#define RECORD "{\"time_ms\":1,\"verdict\":\"allow\",\"kind\":"
#define OF_PACKAGE RECORD "\"package\",\"package\":{\"kind\":\"file\",\"result\":\"downloaded\","
#define NPM OF_PACKAGE "\"ecosystem\":\"npm\","
#define COUNTS "{\"bytes_in\":1,\"bytes_out\":1,\"requests\":1,\"connections\":1,"
#define CLAIM "\"claimed_in\":1,\"claimed_out\":1"
#define TURNS "{\"count\":1,\"sum_ns\":1,\"max_ns\":1,\"slowest_ns\":1,"

static void reports(void)
{
	static const struct edge rows[] = {
		{ record, RECORD "\"dns\",\"execution_unknown\":\"", "w",
		  ACCESS_RECORD_TEXT_WORD_MAX - 1, "\"}", "execution_unknown is not a word" },
		{ counts, COUNTS CLAIM ",\"rules\":[", "{\"rule\":\"r%d\"," CLAIM "}",
		  ACCESS_RECORD_TEXT_RULES_MAX, "]}", "record: too many rules" },
		{ counts, COUNTS CLAIM ",\"rules\":[{" CLAIM ",\"rule\":\"", "r",
		  ACCESS_RECORD_TEXT_RULE_MAX - 1, "\"}]}", "record: a rule without a name" },
		{ turns, TURNS "\"buckets\":[", "%d", ACCESS_RECORD_TEXT_BUCKETS_MAX, "]}",
		  "turns: too many buckets" },
		{ record, NPM "\"checksum\":\"", "c", PACKAGE_RECORD_CHECKSUM_MAX - 1, "\"}}",
		  "package.checksum is not a text" },
		{ record, NPM "\"file\":\"", "f", PACKAGE_FILE_MAX - 1, "\"}}",
		  "package.file is not a text" },
		{ record, NPM "\"version\":\"", "v", PACKAGE_VERSION_MAX - 1, "\"}}",
		  "package.version is not a text" },
	};

	edge_try(rows, COUNT(rows));
}

/* No word is as long as its place: the longest ones are refused as what they are not, and one
 * beyond as what is no text. */
static void words_of_packages(void)
{
	static const char *const names[] = { "expected", "algorithm", "install_code", "cache" };
	struct edge_text t = { 0 };
	struct err e;

	for (size_t i = 0; i < COUNT(names); i++)
		for (size_t more = 0; more < 2; more++) {
			t.len = 0;
			edge_put(&t, NPM "\"");
			edge_put(&t, names[i]);
			edge_put(&t, "\":\"");
			edge_put_times(&t, "w", PACKAGE_RECORD_WORD_MAX - 1 + more);
			edge_put(&t, "\"}}");
			CHECK(!edge_taken(record, &t, &e));
			CHECK_HAS(names[i], e.msg, more > 0 ? "is not a text" : "is unknown");
		}
	free(t.p);
}

/* What is cut, and where: n bytes of 'x' arrive, and so many stay. */
static void texts_that_are_cut(void)
{
	struct edge_text t = { 0 };

	for (size_t more = 0; more < 2; more++) {
		struct access_record_text r;
		struct record_turns w;
		OWN_MEM char *clean = NULL;
		struct err e;

		t.len = 0;
		edge_put(&t, NPM "\"name\":\"a\"},\"reason\":\"");
		edge_put_times(&t, "x", ACCESS_RECORD_TEXT_REASON_MAX - 1 + more);
		edge_put(&t, "\",\"rule\":\"");
		edge_put_times(&t, "x", ACCESS_RECORD_TEXT_RULE_MAX - 1 + more);
		edge_put(&t, "\",\"name\":\"");
		edge_put_times(&t, "x", ACCESS_RECORD_TEXT_NAME_MAX - 1 + more);
		edge_put(&t, "\",\"secrets\":\"");
		edge_put_times(&t, "x", ACCESS_RECORD_TEXT_SECRETS_MAX - 1 + more);
		edge_put(&t, "\"}");
		CHECK(access_record_text_read(t.p, t.len, &r, &clean, &e) == 0);
		CHECK(strlen(r.reason) == ACCESS_RECORD_TEXT_REASON_MAX - 1);
		CHECK(strlen(r.rule) == ACCESS_RECORD_TEXT_RULE_MAX - 1);
		CHECK(strlen(r.name) == ACCESS_RECORD_TEXT_NAME_MAX - 1);
		CHECK(strlen(r.secrets) == ACCESS_RECORD_TEXT_SECRETS_MAX - 1);
		t.len = 0;
		edge_put(&t, TURNS "\"slowest\":\"");
		edge_put_times(&t, "x", ACCESS_RECORD_TEXT_CALLBACK_MAX - 1 + more);
		edge_put(&t, "\"}");
		CHECK(access_record_text_turns(t.p, t.len, &w, &e) == 0);
		CHECK(strlen(w.slowest) == ACCESS_RECORD_TEXT_CALLBACK_MAX - 1);
	}
	free(t.p);
}

/* A character of two bytes that does not fit as a whole is left out. */
static void cut_between_characters(void)
{
	struct edge_text t = { 0 };
	struct access_record_text r;
	OWN_MEM char *clean = NULL;
	struct err e;

	edge_put(&t, RECORD "\"request\",\"reason\":\"");
	edge_put_times(&t, "x", ACCESS_RECORD_TEXT_REASON_MAX - 2);
	edge_put(&t, "\xc3\xa9\",\"name\":\"");
	edge_put_times(&t, "x", ACCESS_RECORD_TEXT_NAME_MAX - 2);
	edge_put(&t, "\xc3\xa9\"}");
	CHECK(access_record_text_read(t.p, t.len, &r, &clean, &e) == 0);
	CHECK(strlen(r.reason) == ACCESS_RECORD_TEXT_REASON_MAX - 2);
	CHECK(strlen(r.name) == ACCESS_RECORD_TEXT_NAME_MAX - 2);
	free(t.p);
}

/* ---- policies */

static bool tenant(const char *text, size_t len, struct err *e)
{
	char *made = NULL;
	int done = policy_select_read(text, len, POLICY_TENANT, &made, e);

	free(made);
	return done == 0;
}

/* Values are counted before the document is read: as numbers in a list that no policy has. */
static void values_of_a_policy(void)
{
	struct edge_text t = { 0 };
	struct err e;

	for (size_t more = 0; more < 2; more++) {
		t.len = 0;
		/* The document, its version, the list. */
		edge_put(&t, "{\"version\":1,\"none\":[");
		edge_put_items(&t, "1", POLICY_SELECT_VALUES_MAX - 3 + more);
		edge_put(&t, "]}");
		CHECK(!edge_taken(tenant, &t, &e));
		CHECK((strstr(e.msg, "more than 100000 values") != NULL) == (more > 0));
		t.len = 0;
		edge_put(&t, "{\"version\":1,\"none\":");
		edge_put_times(&t, "[", POLICY_SELECT_DEPTH_MAX - 1 + more);
		edge_put_times(&t, "]", POLICY_SELECT_DEPTH_MAX - 1 + more);
		edge_put(&t, "}");
		CHECK(!edge_taken(tenant, &t, &e));
		CHECK((strstr(e.msg, "too deep") != NULL) == (more > 0));
	}
	free(t.p);
}

/* A name is that of presets, or `custom`, but never a part of one. */
static void names_of_policies(void)
{
	char text[512], name[POLICY_SELECT_NAME_MAX];
	const size_t most = POLICY_SELECT_NAME_MAX - 1;

	for (size_t more = 0; more < 2; more++) {
		(void)snprintf(text, sizeof(text), "{\"extends\":[\"%0*d\",\"x\"]}",
			       (int)(most - 2 + more), 0);
		policy_select_name(text, name);
		CHECK((strcmp(name, "custom") == 0) == (more > 0));
		CHECK(more > 0 || strlen(name) == most);
		/* "+custom" is behind the presets. */
		(void)snprintf(text, sizeof(text),
			       "{\"extends\":[\"%0*d\"],\"rules\":[\"a.test\"]}",
			       (int)(most - 7 + more), 0);
		policy_select_name(text, name);
		CHECK((strcmp(name, "custom") == 0) == (more > 0));
		CHECK(more > 0 || strlen(name) == most);
	}
}

static void values_of_a_parameter(void)
{
	static const char allow[] = "{\"version\":1,\"rules\":[{\"host\":\"a.test\","
				    "\"query\":{\"q\":\"v\"}}]}";
	static const char deny[] = "{\"version\":1,\"default\":\"allow\",\"rules\":[{\"host\":"
				   "\"a.test\",\"action\":\"deny\",\"query\":{\"q\":\"v\"}}]}";
	struct policy *yes = policy_make(NULL, NULL, allow), *no = policy_make(NULL, NULL, deny);
	struct edge_text t = { 0 };

	for (size_t more = 0; more < 2; more++)
		for (unsigned i = 0; i < 2; i++) {
			struct policy_answer a;

			t.len = 0;
			edge_put(&t, "");
			edge_put_times(&t, i == 0 ? "q=v&" : "q=w&", 256 + more);
			policy_ask(
				i == 0 ? yes : no,
				&(struct policy_target){ .host = "a.test", .port = 443 },
				&(struct policy_request){
					.tls = true, .method = "GET", .path = "/", .query = t.p },
				&a);
			CHECK((a.verdict == POLICY_PERMIT) == (more == 0));
		}
	policy_free(yes);
	policy_free(no);
	free(t.p);
}

/* The worst policy that the bounds admit, and the worst request: the work stays bounded, and the
 * request is refused with the reason. */
static void work_of_a_request(void)
{
	static const struct {
		const char *pairs, *query, *value;
		unsigned rules, times;
		bool known; /* few parameters, so it is decided by the rules */
	} cases[] = {
		{ "\"query\":{\"a\":\"*\",\"z\":\"q\"}", "a&", "", 4000, 256, false },
		{ "\"query\":{\"a\":\"*\",\"z\":\"q\"}", "a&", "", 4000, 4000, false },
		{ "\"headers\":{\"x\":\"*a*b*\"}", "", "a,", 250, 30000, false },
		{ "\"headers\":{\"x\":\"a*\",\"y\":\"*\"}", "", "a,", 4000, 30000, false },
		{ "\"query\":{\"a\":\"*\",\"z\":\"q\"}", "a&", "", 4000, 8, true },
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct edge_text doc = { 0 }, query = { 0 }, value = { 0 };
		struct policy_request q = { .tls = true, .method = "GET", .path = "/" };
		struct policy_target to = { .host = "a.test", .port = 443 };
		struct http1_header x = { .name = { "x", 1 } };
		struct policy_answer a;
		struct policy_seen seen;
		struct policy *p;
		struct err e;

		edge_put(&doc, "{\"rules\":[");
		for (unsigned k = 0; k < cases[i].rules; k++) {
			edge_put(&doc, k > 0 ? ",{\"host\":\"a.test\"," : "{\"host\":\"a.test\",");
			edge_put(&doc, cases[i].pairs);
			edge_put(&doc, "}");
		}
		edge_put(&doc, "]}");
		CHECK(policy_read(doc.p, doc.len, POLICY_SESSION, &p, &e) == 0);
		edge_put(&query, "");
		edge_put(&value, "");
		edge_put_times(&query, cases[i].query, cases[i].times);
		edge_put_times(&value, cases[i].value, cases[i].times);
		if (query.len > 0)
			q.query = query.p;
		x.value = (struct http1_span){ value.p, value.len };
		q.headers = &x;
		q.nheaders = value.len > 0 ? 1 : 0;
		policy_ask(p, &to, &q, &a);
		CHECK(a.verdict == POLICY_REFUSE);
		CHECK((strstr(a.reason, "must be compared") == NULL) == cases[i].known);
		/* Each step counts at most 64 and the bytes of one value. */
		policy_request_see(&q, &seen);
		for (size_t k = 0; k < p->list.n; k++)
			(void)policy_request_fits(p->list.rules[k].match, &seen);
		CHECK(seen.work < POLICY_WORK_MAX + p->list.n * (64 + value.len + 256));
		CHECK(seen.parameters.n <= 512);
		policy_request_forget(&seen);
		policy_free(p);
		free(doc.p);
		free(query.p);
		free(value.p);
	}
}

/* Is a page below the name of a denied repository of n parts refused? start: of the pattern. */
static bool is_denied(const char *before, const char *start, size_t n)
{
	struct package_request r = { .ecosystem = ECO_GIT, .kind = PACKAGE_OTHER };
	struct package_question q = { .request = &r, .now_ms = NOW };
	struct edge_text member = { 0 }, path = { 0 };
	struct package_answer a;
	struct policy *p;
	bool files;

	edge_put(&member, "{\"deny\":[\"git:");
	edge_put(&member, start);
	edge_put_times(&member, "/b", start[0] == 'a' ? n - 2 : 0);
	edge_put(&member, "/c\"]}");
	edge_put(&path, before);
	edge_put(&path, "/a");
	edge_put_times(&path, "/b", n - 2);
	edge_put(&path, "/c/-/raw/main/setup.py");
	p = make(NULL, NULL, member.p);
	q.registry = packages_registry(policy_packages(p), "github.com", 443, NULL, &files);
	q.path = path.p;
	q.git_starts = 1;
	package_judge(policy_packages(p), &q, &a);
	policy_free(p);
	free(member.p);
	free(path.p);
	return a.verdict == PACKAGE_REFUSE && strstr(a.reason, "denied") != NULL;
}

static void parts_of_repositories(void)
{
	static const char *const befores[] = { "", "/api/v4/projects" };

	for (size_t i = 0; i < COUNT(befores); i++)
		for (size_t n = 2; n <= PACKAGE_NAME_MAX / 2; n++) {
			if (!is_denied(befores[i], "a", n)) {
				printf("# %s: %zu parts\n", befores[i], n);
				FAIL("a repository that is denied is not");
			}
			/* "*" and "/c": a star that is not at the end */
			CHECK(i > 0 || is_denied(befores[i], "*", n) == (n <= 24));
		}
}

/* A body that is deeper than the parser of requests takes is left to that parser, with its
 * lockfiles. */
static void depth_of_a_body(void)
{
	struct edge_text t = { 0 };

	for (size_t more = 0; more < 2; more++) {
		char *folded = NULL;
		size_t n = 0;
		struct err e;

		t.len = 0;
		edge_put(&t, "{\"packages\":{\"lockfiles\":[{\"name\":\"go.sum\",\"text\":\"\"}]},"
			     "\"x\":");
		edge_put_times(&t, "[", 63 + more);
		edge_put_times(&t, "]", 63 + more);
		edge_put(&t, "}");
		CHECK(lockfiles_fold(t.p, t.len, NULL, &folded, &n, &e) == 0);
		CHECK((folded != NULL) == (more == 0));
		lockfiles_fold_free(&folded);
	}
	free(t.p);
}

TEST_MAIN({ "reports", reports }, { "words of packages", words_of_packages },
	  { "texts that are cut", texts_that_are_cut },
	  { "cut between characters", cut_between_characters },
	  { "values of a policy", values_of_a_policy }, { "names of policies", names_of_policies },
	  { "values of a parameter", values_of_a_parameter },
	  { "work of a request", work_of_a_request },
	  { "parts of repositories", parts_of_repositories },
	  { "depth of a body", depth_of_a_body })

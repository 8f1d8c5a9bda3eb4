/* Goal: what E2B's clients send to make a sandbox is read with E2B's defaults, and every mistake is
 * named. */
#include <jansson.h>

#include "front/e2b/control/sandbox_spec.h"

#include "support.h"

static struct err e;

static int take(const char *body, enum sandbox_spec_version version, struct sandbox_spec *ret)
{
	memset(&e, 0, sizeof(e));
	return sandbox_spec_read(body, strlen(body), version, ret, &e);
}

static void defaults(void)
{
	struct sandbox_spec s;

	CHECK(take("{\"templateID\":\"base\"}", SANDBOX_SPEC_V1, &s) == 0);
	CHECK_STR(s.template, "base");
	CHECK(s.spec.timeout_given && s.spec.timeout_ms == 15000 && !s.secure);
	CHECK(s.spec.template == NULL && s.spec.profile == -1);
	CHECK(s.spec.on_timeout == SESSION_KILL && !s.auto_resume && s.network.public_traffic);
	CHECK_STR(s.spec.network, "");
	sandbox_spec_release(&s);
	CHECK(take("{\"templateID\":\"base\"}", SANDBOX_SPEC_V2, &s) == 0);
	CHECK(s.spec.timeout_ms == 300000 && s.secure);
	sandbox_spec_release(&s);
	/* A new client always gets a secure one. */
	CHECK(take("{\"templateID\":\"base\",\"secure\":false}", SANDBOX_SPEC_V2, &s) == 0);
	CHECK(s.secure);
	sandbox_spec_release(&s);
}

static void whole(void)
{
	struct sandbox_spec s;

	CHECK(take("{\"templateID\":\"ns/x:default\",\"timeout\":60,\"secure\":true,"
		   "\"metadata\":{\"b\":\"2\",\"a\":\"1 \\u00e9\"},\"envVars\":{\"A\":\"x=y\"},"
		   "\"autoPause\":true,\"autoPauseMemory\":true,\"autoResume\":{\"enabled\":true},"
		   "\"network\":{\"allowPublicTraffic\":false,\"maskRequestHost\":\"h\"},"
		   "\"allow_internet_access\":true,\"mcp\":{\"x\":{}},\"volumeMounts\":[],"
		   "\"iam\":{\"tokens\":{}},\"whatever\":[1]}",
		   SANDBOX_SPEC_V1, &s) == 0);
	CHECK_STR(s.template, "ns/x:default");
	CHECK(s.spec.timeout_ms == 60000 && s.secure && s.auto_resume);
	CHECK(s.spec.on_timeout == SESSION_PAUSE);
	CHECK_STR(s.spec.metadata, "{\"a\":\"1 \303\251\",\"b\":\"2\"}");
	CHECK(s.spec.env_len == 6 && memcmp(s.spec.env, "A=x=y", 6) == 0);
	CHECK(!s.network.public_traffic);
	CHECK_STR(s.network.mask_host, "h");
	CHECK(s.spec.network == s.network.text &&
	      strstr(s.spec.network, "maskRequestHost") != NULL);
	sandbox_spec_release(&s);
}

static void refused(void)
{
	static const struct {
		const char *body, *part;
		enum err_code code;
	} bad[] = {
		{ "", "templateID", ERR_INVALID },
		{ "[]", "object", ERR_INVALID },
		{ "{\"templateID\":", "JSON", ERR_INVALID },
		{ "{\"templateID\":\"\"}", "templateID", ERR_INVALID },
		{ "{\"templateID\":1}", "templateID", ERR_INVALID },
		{ "{\"templateID\":\"b\",\"timeout\":0}", "Timeout must be greater than 0",
		  ERR_INVALID },
		{ "{\"templateID\":\"b\",\"timeout\":-5}", "Timeout must be greater than 0",
		  ERR_INVALID },
		{ "{\"templateID\":\"b\",\"timeout\":1.5}", "timeout", ERR_INVALID },
		{ "{\"templateID\":\"b\",\"timeout\":\"5\"}", "timeout", ERR_INVALID },
		{ "{\"templateID\":\"b\",\"timeout\":99999999999}", "timeout", ERR_INVALID },
		{ "{\"templateID\":\"b\",\"metadata\":{\"a\":1}}", "metadata", ERR_INVALID },
		{ "{\"templateID\":\"b\",\"metadata\":[]}", "metadata", ERR_INVALID },
		{ "{\"templateID\":\"b\",\"envVars\":{\"a\":1}}", "envVars", ERR_INVALID },
		{ "{\"templateID\":\"b\",\"envVars\":{\"a=b\":\"\"}}", "envVars", ERR_INVALID },
		{ "{\"templateID\":\"b\",\"autoPause\":1}", "autoPause", ERR_INVALID },
		{ "{\"templateID\":\"b\",\"autoPauseMemory\":false}", "needs autoPause",
		  ERR_INVALID },
		{ "{\"templateID\":\"b\",\"autoPause\":true,\"autoPauseMemory\":false,"
		  "\"autoResume\":{\"enabled\":true}}",
		  "autoResume", ERR_INVALID },
		{ "{\"templateID\":\"b\",\"autoResume\":{\"enabled\":1}}", "autoResume.enabled",
		  ERR_INVALID },
		{ "{\"templateID\":\"b\",\"autoResume\":true}", "autoResume", ERR_INVALID },
		{ "{\"templateID\":\"b\",\"network\":[]}", "network", ERR_INVALID },
		{ "{\"templateID\":\"b\",\"network\":{\"denyOut\":[\"x.y\"]}}", "network.denyOut",
		  ERR_INVALID },
		{ "{\"templateID\":\"b\",\"allow_internet_access\":\"no\"}",
		  "allow_internet_access", ERR_INVALID },
		{ "{\"templateID\":\"b\",\"iam\":{\"tokens\":{\"a\":{}}}}", "iam.tokens",
		  ERR_INVALID },
		{ "{\"templateID\":\"b\",\"network\":{\"allowPublicTraffic\":false}}", "secure",
		  ERR_INVALID },
	};
	struct sandbox_spec s;

	for (size_t i = 0; i < COUNT(bad); i++) {
		CHECK_CASE(bad[i].body, take(bad[i].body, SANDBOX_SPEC_V1, &s) < 0);
		CHECK_HAS(bad[i].body, e.msg, bad[i].part);
		CHECK_CASE(bad[i].body, e.code == bad[i].code);
		sandbox_spec_release(&s);
	}
}

static int woken(const char *body, const char *name, struct sandbox_spec_timeout *ret)
{
	return sandbox_spec_timeout(body, strlen(body), name, ret, &e);
}

static void wake(void)
{
	struct sandbox_spec_timeout w;

	CHECK(woken("", "timeout", &w) == 0);
	CHECK(!w.given && w.memory);
	CHECK(woken("{\"timeout\":-3,\"memory\":false}", "timeout", &w) == 0);
	CHECK(w.given && w.timeout_s == -3 && !w.memory);
	CHECK(woken("{\"duration\":7,\"x\":1}", "duration", &w) == 0);
	CHECK(w.given && w.timeout_s == 7);
	CHECK(woken("{\"timeout\":\"7\"}", "timeout", &w) < 0);
	CHECK_HAS("text", e.msg, "timeout");
	CHECK(woken("{\"memory\":1}", "timeout", &w) < 0);
	CHECK_HAS("memory", e.msg, "memory");
}

TEST_MAIN({ "defaults are those of the version", defaults }, { "everything at once", whole },
	  { "what is wrong is refused by name", refused }, { "to wake one", wake })

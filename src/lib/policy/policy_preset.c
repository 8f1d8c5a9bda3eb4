/* policy_preset.c - built-in documents that a layer can extend by name: a table of JSON texts, read
 * like any other document. Called by policy_read.c, policy_merge.c and `cordon policy presets`.
 * Names are part of the API, so none is removed. A preset only allows. It must not depend on
 * another preset. */
#include "lib/policy/policy_private.h"

#include <string.h>

#define READ "\"methods\":[\"GET\",\"HEAD\"]"
#define PUSH "this policy allows reading only: pushing is not possible from here"

#define OPENAI                                                                                     \
	"{\"name\":\"openai\",\"class\":\"model\",\"host\":\"api.openai.com\",\"ports\":[443],"    \
	"\"methods\":[\"POST\"],\"paths\":[\"/v1/chat/completions\",\"/v1/completions\","          \
	"\"/v1/responses\",\"/v1/embeddings\",\"/v1/moderations\",\"/v1/images/**\","              \
	"\"/v1/audio/**\"]},"                                                                      \
	"{\"name\":\"openai websocket\",\"class\":\"model\",\"host\":\"api.openai.com\","          \
	"\"ports\":[443],\"methods\":[\"GET\"],\"paths\":[\"/v1/responses\"],\"websocket\":true}," \
	"{\"name\":\"openai models\",\"class\":\"model\",\"host\":\"api.openai.com\","             \
	"\"ports\":[443]," READ ",\"paths\":[\"/v1/models\",\"/v1/models/*\"]}"
#define ANTHROPIC                                                                            \
	"{\"name\":\"anthropic\",\"class\":\"model\",\"host\":\"api.anthropic.com\","        \
	"\"ports\":[443],\"methods\":[\"POST\"],\"paths\":[\"/v1/messages\","                \
	"\"/v1/messages/count_tokens\",\"/v1/complete\"]},"                                  \
	"{\"name\":\"anthropic models\",\"class\":\"model\",\"host\":\"api.anthropic.com\"," \
	"\"ports\":[443]," READ ",\"paths\":[\"/v1/models\",\"/v1/models/*\"]},"             \
	"{\"name\":\"anthropic hello\",\"host\":\"api.anthropic.com\",\"ports\":[443]," READ \
	",\"paths\":[\"/\",\"/api/hello\"]}"

struct preset {
	const char *name, *summary, *text;
};

static const struct preset presets[] = {
	{ "none", "no network at all", "{\"version\":1}" },
	{ "deny", "refuses everything: every attempt is answered and recorded",
	  "{\"version\":1,\"default\":\"deny\"}" },
	{ "internet", "every public name and address, every port",
	  "{\"version\":1,\"default\":\"allow\"}" },
	{ "pypi", "Python packages, reading only",
	  "{\"version\":1,\"rules\":[{\"name\":\"pypi\",\"class\":\"packages\","
	  "\"host\":[\"pypi.org\",\"files.pythonhosted.org\"]," READ "}]}" },
	{ "npm", "npm packages, reading only, and npm's audit",
	  "{\"version\":1,\"rules\":["
	  "{\"name\":\"npm\",\"class\":\"packages\",\"host\":\"registry.npmjs.org\"," READ "},"
	  "{\"name\":\"npm audit\",\"class\":\"packages\",\"host\":\"registry.npmjs.org\","
	  "\"methods\":[\"POST\"],\"paths\":[\"/-/npm/v1/security/**\"]}]}" },
	{ "debian", "Debian packages, reading only, also over plain HTTP",
	  "{\"version\":1,\"rules\":[{\"name\":\"debian\",\"class\":\"packages\","
	  "\"host\":[\"deb.debian.org\",\"security.debian.org\"]," READ "}]}" },
	{ "packages", "packages of public registries (not apt) that are a week old",
	  "{\"version\":1,\"packages\":{\"registries\":[\"pypi\",\"npm\",\"yarn\",\"cargo\","
	  "{\"use\":\"go\",\"unknown_age\":\"allow\"},\"gem\",\"maven\"],\"min_age\":\"7d\"}}" },
	{ "github-read", "GitHub: clone, fetch, download, the API's reads; no push",
	  "{\"version\":1,\"rules\":["
	  "{\"name\":\"github push\",\"host\":[\"github.com\",\"gist.github.com\"],"
	  "\"paths\":[\"/**/git-receive-pack\"],\"action\":\"deny\",\"reason\":\"" PUSH "\"},"
	  "{\"name\":\"github push\",\"host\":[\"github.com\",\"gist.github.com\"],"
	  "\"query\":{\"service\":\"git-receive-pack\"},\"action\":\"deny\",\"reason\":\"" PUSH
	  "\"},"
	  "{\"name\":\"github fetch\",\"host\":[\"github.com\",\"gist.github.com\"],"
	  "\"methods\":[\"POST\"],\"paths\":[\"/**/git-upload-pack\"]},"
	  "{\"name\":\"github read\",\"host\":[\"github.com\",\"gist.github.com\","
	  "\"api.github.com\",\"codeload.github.com\",\"raw.githubusercontent.com\","
	  "\"objects.githubusercontent.com\",\"release-assets.githubusercontent.com\","
	  "\"gist.githubusercontent.com\"]," READ "}]}" },
	{ "openai", "the OpenAI API, calls are recorded",
	  "{\"version\":1,\"rules\":[" OPENAI "]}" },
	{ "anthropic", "the Anthropic API, calls are recorded",
	  "{\"version\":1,\"rules\":[" ANTHROPIC "]}" },
	{ "gemini", "the Gemini API, calls are recorded",
	  "{\"version\":1,\"rules\":["
	  "{\"name\":\"gemini\",\"class\":\"model\","
	  "\"host\":\"generativelanguage.googleapis.com\",\"ports\":[443],"
	  "\"methods\":[\"POST\"],\"paths\":[\"/v1/models/*:*\",\"/v1beta/models/*:*\"]},"
	  "{\"name\":\"gemini models\",\"class\":\"model\","
	  "\"host\":\"generativelanguage.googleapis.com\",\"ports\":[443]," READ ","
	  "\"paths\":[\"/v1/models\",\"/v1/models/*\",\"/v1beta/models\",\"/v1beta/models/"
	  "*\"]}]}" },
	{ "codex", "the requests of Codex to the OpenAI API",
	  "{\"version\":1,\"rules\":[" OPENAI "]}" },
	{ "claude-code", "the requests of Claude Code to Anthropic",
	  "{\"version\":1,\"rules\":[" ANTHROPIC
	  ",{\"name\":\"claude hello\",\"host\":\"platform.claude.com\",\"ports\":[443]," READ
	  ",\"paths\":[\"/v1/oauth/hello\"]}]}" },
};

const char *policy_preset(const char *name)
{
	for (size_t i = 0; i < COUNT(presets); i++)
		if (strcmp(presets[i].name, name) == 0)
			return presets[i].text;
	return NULL;
}

const char *policy_preset_name(size_t i, const char **ret_summary)
{
	if (i >= COUNT(presets))
		return NULL;
	if (ret_summary != NULL)
		*ret_summary = presets[i].summary;
	return presets[i].name;
}

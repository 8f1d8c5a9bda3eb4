/* Any body that makes a sandbox, any network options, any parameter of a list; the first byte says
 * which. What is taken is within the bounds the core relies on; what is refused says why. */
#include "fuzz.h"

#include <jansson.h>

#include "front/e2b/control/sandbox_filter.h"
#include "front/e2b/control/netname.h"
#include "front/e2b/base/rfc3339.h"
#include "front/e2b/control/sandbox_spec.h"

unsigned long fuzz_accepted;

/* What a row keeps can be read and shown again, without the password. */
static void shown(const char *text)
{
	json_t *root;
	struct json j;

	json_init_heap(&j, 4U << 20);
	json_open(&j, NULL, '{');
	network_shape(&j, text);
	json_close(&j, '}');
	assert(json_ok(&j));
	root = json_loads(j.text, 0, NULL);
	assert(json_is_object(root));
	assert(json_object_get(json_object_get(json_object_get(root, "network"), "egressProxy"),
			       "password") == NULL);
	json_decref(root);
	json_release(&j);
}

static int spec(const char *body, size_t len, enum sandbox_spec_version version, struct err *e)
{
	struct sandbox_spec s;
	int r = sandbox_spec_read(body, len, version, &s, e);

	if (r == 0) {
		assert(s.template != NULL && s.template[0] != '\0');
		assert(s.spec.timeout_given && s.spec.timeout_ms >= 1000);
		assert(s.spec.on_timeout < SESSION_ACTIONS);
		assert(s.spec.metadata == NULL || s.spec.metadata[0] == '{');
		assert(s.spec.env_len == 0 || s.spec.env[s.spec.env_len - 1] == '\0');
		assert(s.secure || s.network.public_traffic);
		shown(s.spec.network);
	}
	sandbox_spec_release(&s);
	return r;
}

static int update(const char *body, size_t len, struct err *e)
{
	json_t *root = json_members_parse(body, len, e);
	char *text = NULL, *again = NULL;
	int r = root == NULL ? -1 : network_update("", root, &text, e);

	if (r == 0) {
		shown(text);
		/* It replaces itself. */
		assert(network_update(text, root, &again, e) == 0 && strcmp(text, again) == 0);
	}
	assert(r == 0 || text == NULL);
	free(text);
	free(again);
	json_decref(root);
	return r;
}

/* The first line is the parameter, the second the metadata of a row: whatever is in it, the same as
 * a parser would have found. */
static int filter(char *text, struct err *e)
{
	char *row = strchr(text, '\n'), *written;
	struct sandbox_filter f;
	bool all = true;
	json_t *root;
	int r;

	if (row != NULL)
		*row++ = '\0';
	r = sandbox_filter_read(text, &f, e);
	root = row == NULL ? NULL : json_loads(row, 0, NULL);
	if (r == 0 && json_is_object(root)) {
		const char *key;
		json_t *value;

		json_object_foreach(root, key, value) if (!json_is_string(value)) all = false;
		written = json_dumps(root, JSON_COMPACT);
		if (all) {
			for (unsigned i = 0; i < f.n && all; i++) {
				json_t *name = json_loads(f.pairs[i].name, JSON_DECODE_ANY, NULL);
				json_t *want = json_loads(f.pairs[i].value, JSON_DECODE_ANY, NULL);

				all = json_equal(json_object_get(root, json_string_value(name)),
						 want);
				json_decref(name);
				json_decref(want);
			}
			assert(sandbox_filter_matches(&f, written) == all);
		}
		free(written);
	} else if (r == 0 && row != NULL) {
		(void)sandbox_filter_matches(&f, row);
	}
	json_decref(root);
	sandbox_filter_release(&f);
	return r;
}

static int cursor(const char *text, struct err *e)
{
	struct sandbox_filter_cursor c, again;
	char token[SANDBOX_FILTER_CURSOR_MAX];
	unsigned set = 0;
	uint64_t us;

	if (rfc3339_read(text, &us) == 0)
		assert(us / 1000000 < 253402387200);
	if (sandbox_filter_states(text, &set, e) == 0)
		assert(set > 0 && set <= 3);
	(void)netname_is_endpoint(text);
	(void)netname_is_host(text);
	if (sandbox_filter_cursor_read(text, &c, e) < 0)
		return -1;
	assert(c.id[0] != '\0' && strlen(c.id) < sizeof(c.id));
	sandbox_filter_cursor_write(&c, token);
	assert(sandbox_filter_cursor_read(token, &again, e) == 0);
	assert(again.ms == c.ms && strcmp(again.id, c.id) == 0 && again.ascending == c.ascending);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text, *exact;
	struct err e = { 0 };
	int r;

	if (size == 0)
		return 0;
	text = fuzz_text(data + 1, size - 1);
	exact = fuzz_copy(data + 1, size - 1);
	switch (data[0]) {
	case '1':
		r = spec(exact, size - 1, SANDBOX_SPEC_V1, &e);
		break;
	case '2':
		r = spec(exact, size - 1, SANDBOX_SPEC_V2, &e);
		break;
	case 'n':
		r = update(exact, size - 1, &e);
		break;
	case 'f':
		r = filter(text, &e);
		break;
	default:
		r = cursor(text, &e);
		break;
	}
	assert(r == 0 || (e.code != ERR_NONE && e.msg[0] != '\0'));
	fuzz_accepted += r == 0;
	free(exact);
	free(text);
	return 0;
}

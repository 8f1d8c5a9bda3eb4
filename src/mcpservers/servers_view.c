#include "servers_view.h"

#include "json.h"
#include "servers_part.h"

static void write_tools(struct json *j, const struct server_link *k)
{
	char rule[TOOL_POLICY_WORD_MAX];

	json_open(j, "tools", '[');
	for (size_t i = 0; i < k->peer.tools.n; i++) {
		const char *name = k->peer.tools.tools[i].name;

		json_open(j, NULL, '{');
		json_text(j, "name", name);
		json_bool(j, "allowed", tool_policy_allows(&k->spec.policy, name, rule));
		json_text(j, "rule", rule);
		json_bool(j, "changed", tool_pins_changed(&k->pins, name));
		json_close(j, '}');
	}
	json_close(j, ']');
}

void servers_view_write(struct json *j, struct core *core, const char *session_id)
{
	json_open(j, "servers", '[');
	for (const struct server_link *k = servers_next(core, session_id, NULL); k != NULL;
	     k = servers_next(core, session_id, k)) {
		json_open(j, NULL, '{');
		json_text(j, "name", k->spec.name);
		json_text(j, "session_id", session_row(k->session)->id);
		json_text(j, "state", server_link_state(k));
		json_text(j, "error", k->failure[0] == '\0' ? NULL : k->failure);
		json_text(j, "version", k->peer.version);
		json_text(j, "pin", k->spec.strict ? "strict" : "warn");
		write_tools(j, k);
		json_close(j, '}');
	}
	json_close(j, ']');
}

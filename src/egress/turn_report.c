#include "turn_report.h"

#include "json.h"

void turn_report(struct egress *e)
{
	const struct turns *t = loop_turns(e->loop);
	const struct turns_turn *slowest = turns_slowest(t);
	char text[2048], name[TURNS_NAME_MAX];
	struct json j;

	turns_name(&slowest->longest, name);
	json_init(&j, text, sizeof(text));
	json_open(&j, NULL, '{');
	json_uint(&j, "count", t->count);
	json_uint(&j, "sum_ns", t->sum_ns);
	json_uint(&j, "max_ns", t->max_ns);
	json_uint(&j, "slowest_ns", slowest->ns);
	json_text(&j, "slowest", name);
	json_open(&j, "buckets", '[');
	for (size_t i = 0; i < TURNS_BUCKETS + 1; i++)
		json_uint(&j, NULL, t->buckets[i]);
	json_close(&j, ']');
	json_close(&j, '}');
	if (json_ok(&j))
		IGNORED(control_out_put(&e->out, EGRESS_TURNS, "", text, j.len) ? 0 : -1,
			"the next report includes it");
}

#include "session_part.h"

#include "api_call.h"
#include "id_match.h"

int session_part_get(const struct args_common *common, const char *word, const char *part,
		     json_t **ret, struct err *e)
{
	OWN_API_CALL a = { 0 };
	char id[ID_MATCH_ID_MAX];
	struct target t;

	if (api_call_open(&a, common, API_CALL_ANSWER_MS, e) < 0 ||
	    id_match_session(&a, word, id, e) < 0)
		return -1;
	id_match_target(&t, id, part);
	return api_call_json(&a, "GET", &t, NULL, ret, e);
}

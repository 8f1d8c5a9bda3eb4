#include "unfit_answer.h"

#include "json.h"
#include "server.h"

#define TEXT_MAX 2048

void unfit_answer(struct exchange *x, const char *why)
{
	char text[TEXT_MAX];
	struct json j;

	json_init(&j, text, sizeof(text));
	json_open(&j, NULL, '{');
	json_open(&j, "error", '{');
	json_text(&j, "code", "unavailable");
	json_text(&j, "message", why);
	json_text(&j, "fault", "platform");
	json_text(&j, "request_id", exchange_id(x));
	json_close(&j, '}');
	json_close(&j, '}');
	exchange_header(x, "Retry-After", "10");
	exchange_reply(x, 503, "application/json", j.text, j.len);
}

/* op_survey.c - tells what an archive for an import is. The result is written to the third
 * descriptor: a struct storage_survey_result, then the bytes of the configuration. */
#include "io.h"
#include "layer_make.h"
#include "survey.h"

enum { ARCHIVE, SPARE, RESULT };

static int work(void *arg, int top, const int *lower, struct storage_reply *reply, struct err *e)
{
	const struct storage_run *run = arg;
	struct survey s = { .archive = run->fds[ARCHIVE],
			    .spare = run->fds[SPARE],
			    .bytes_max = run->r->survey.bytes_max,
			    .reserve_percent = run->r->survey.reserve_percent };
	int result = survey_read(&s, e);

	(void)top;
	(void)lower;
	(void)reply;
	if (result == 0)
		result = io_write_all(run->fds[RESULT], &s.result, sizeof(s.result), e);
	if (result == 0)
		result = io_write_all(run->fds[RESULT], s.config.data, s.config.len, e);
	survey_release(&s);
	return result;
}

int op_survey(struct storage_run *run, struct err *e)
{
	const struct layer_make m = { .work = work, .arg = run };

	return layer_make_nothing(run, &m, e);
}

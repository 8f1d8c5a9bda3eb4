/* unfit_answer.h - the answer to every request while the database is damaged. */
#pragma once

struct exchange;

/* 503, in the native interface's shape of errors. */
void unfit_answer(struct exchange *x, const char *why);

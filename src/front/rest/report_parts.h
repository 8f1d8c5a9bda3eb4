/* report_parts.h - parts of a report (api_report.c): policies, keys by scope, and what an operator
 * has put on record on this machine: the findings of `cordon doctor` and results of tests. */
#pragma once

#include "front/web/request.h"
#include "lib/json/json.h"

void report_policies(struct json *j, const struct request *r);
int report_keys(struct json *j, struct request *r, struct err *e) MUST_USE;
/* Two small files of the state directory. Nothing of them decides anything. */
void report_evidence(struct json *j, struct request *r);

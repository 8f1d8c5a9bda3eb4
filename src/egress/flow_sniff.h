/* flow_sniff.h - the stage of a flow in which its first bytes are looked at. */
#pragma once

#include "flow.h"

/* Decides by what arrives: TLS, HTTP or other bytes; then calls the next stage. */
void flow_sniff(struct flow *f);

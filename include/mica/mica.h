/* mica.h - all of mica.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_MICA_H
#define MICA_MICA_H

#include <mica/array.h>
#include <mica/chat_template.h>
#include <mica/dtype.h>
#include <mica/engine.h>
#include <mica/io.h>
#include <mica/json.h>
#include <mica/log.h>
#include <mica/memory.h>
#include <mica/model.h>
#include <mica/number.h>
#include <mica/ops.h>
#include <mica/status.h>
#include <mica/tokenizer.h>

#endif

/* Attention over one page on a device of many lanes that multiplies packed bytes; see
 * lib/attend_wide.glsl. */
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#define DOT_PACKED
#include "attend_wide.glsl"

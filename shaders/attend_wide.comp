/* Attention over one page on a device of many lanes; see lib/attend_wide.glsl. */
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "attend_wide.glsl"

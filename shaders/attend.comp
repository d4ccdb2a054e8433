/* Attention over one page on any device; see lib/attend.glsl. */
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "attend.glsl"

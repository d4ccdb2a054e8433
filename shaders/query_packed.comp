/* Queries to A8 where the device multiplies packed bytes; see lib/query.glsl. */
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#define DOT_PACKED
#include "query.glsl"

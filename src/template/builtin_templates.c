#include "template/builtin_templates.h"

#include <string.h>

#include "base/buf.h"

/* In all of them but raw and rwkv_world a message is asked for its reasoning_content
 * ("thoughts"): whoever fills it in then keeps the thoughts of a reply out of its content. */

static const char chatml[] =
    "{%- for m in messages -%}{%- set thoughts = m.reasoning_content -%}"
    "{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{ '<|im_start|>assistant\\n' }}{%- endif -%}";

/* The same of a model that thinks unless an empty thought is put before its reply. */
static const char qwen3[] =
    "{%- for m in messages -%}{%- set thoughts = m.reasoning_content -%}"
    "{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{ '<|im_start|>assistant\\n' }}"
    "{%- if enable_thinking is defined and not enable_thinking -%}"
    "{{ '<think>\\n\\n</think>\\n\\n' }}{%- endif -%}{%- endif -%}";

static const char raw[] = "{%- for message in messages -%}{{- message.content -}}"
                          "{%- endfor -%}";

/* A turn is a paragraph, of a reply what follows its thoughts. */
static const char rwkv_world[] =
    "{{ bos_token }}\n"
    "{%- for message in messages -%}\n"
    "{%- if message.role == 'assistant' -%}\n"
    "{{ 'Assistant: ' + message.content.split('</think>')[-1] | trim + '\\n\\n' }}\n"
    "{%- else -%}\n"
    "{{ ('System: ' if message.role == 'system' else 'User: ') + message.content | trim "
    "+ '\\n\\n' }}\n{%- endif -%}\n"
    "{%- endfor -%}\n"
    "{%- if add_generation_prompt -%}\n{{ 'Assistant:' }}\n{%- endif -%}\n";

/* Harmony: a reply's channel is part of its head, and the head of the next is the model's to
 * complete. What users call the system message is the developer's. */
static const char gpt_oss[] =
    "{{ '<|start|>system<|message|>You are ChatGPT, a large language model trained by "
    "OpenAI.\\nKnowledge cutoff: 2024-06\\nCurrent date: ' + strftime_now('%Y-%m-%d') + "
    "'\\n\\nReasoning: ' + (reasoning_effort or 'medium') + '\\n\\n# Valid channels: "
    "analysis, commentary, final. Channel must be included for every message.<|end|>' }}"
    "{%- for m in messages -%}{%- set thoughts = m.reasoning_content -%}"
    "{%- if m.role == 'system' -%}"
    "{{ '<|start|>developer<|message|># Instructions\\n\\n' + m.content + "
    "'\\n\\n<|end|>' }}"
    "{%- elif m.role == 'assistant' -%}"
    "{{ '<|start|>assistant<|channel|>final<|message|>' + m.content + '<|end|>' }}"
    "{%- else -%}{{ '<|start|>user<|message|>' + m.content + '<|end|>' }}{%- endif -%}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{ '<|start|>assistant' }}{%- endif -%}";

/* Thinking is a word of the system message; without it an empty thought is put before the
 * reply. */
static const char gemma4[] =
    "{{ bos_token }}{%- set said = messages and messages[0].role == 'system' -%}"
    "{%- if enable_thinking or said -%}"
    "{{ '<|turn>system\\n' + ('<|think|>\\n' if enable_thinking else '') }}"
    "{%- if said -%}{{ messages[0].content | trim }}{%- endif -%}{{ '<turn|>\\n' }}"
    "{%- endif -%}"
    "{%- for m in messages -%}{%- set thoughts = m.reasoning_content -%}"
    "{%- if m.role != 'system' -%}"
    "{{ '<|turn>' + ('model' if m.role == 'assistant' else m.role) + '\\n' + m.content | "
    "trim + '<turn|>\\n' }}{%- endif -%}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}"
    "{{ '<|turn>model\\n' + ('' if enable_thinking else "
    "'<|channel>thought\\n<channel|>') }}{%- endif -%}";

/* There is no system turn: what would be in it stands in the first turn of the user. */
static const char gemma[] =
    "{{ bos_token }}{%- set held = namespace(text='') -%}"
    "{%- for m in messages -%}{%- set thoughts = m.reasoning_content -%}"
    "{%- if m.role == 'system' -%}{%- set held.text = m.content + '\\n\\n' -%}"
    "{%- else -%}"
    "{{ '<start_of_turn>' + ('model' if m.role == 'assistant' else m.role) + '\\n' + "
    "held.text + m.content | trim + '<end_of_turn>\\n' }}{%- set held.text = '' -%}"
    "{%- endif -%}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{ '<start_of_turn>model\\n' }}{%- endif -%}";

static const char llama4[] =
    "{{ bos_token }}"
    "{%- for m in messages -%}{%- set thoughts = m.reasoning_content -%}"
    "{{ '<|header_start|>' + m.role + '<|header_end|>\\n\\n' + m.content | trim + "
    "'<|eot|>' }}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}"
    "{{ '<|header_start|>assistant<|header_end|>\\n\\n' }}{%- endif -%}";

static const char llama3[] =
    "{{ bos_token }}"
    "{%- for m in messages -%}{%- set thoughts = m.reasoning_content -%}"
    "{{ '<|start_header_id|>' + m.role + '<|end_header_id|>\\n\\n' + m.content | trim + "
    "'<|eot_id|>' }}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}"
    "{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{%- endif -%}";

/* The same as in Gemma's, between marks of its own. */
static const char llama2[] =
    "{%- set held = namespace(text='') -%}"
    "{%- for m in messages -%}{%- set thoughts = m.reasoning_content -%}"
    "{%- if m.role == 'system' -%}"
    "{%- set held.text = '<<SYS>>\\n' + m.content + '\\n<</SYS>>\\n\\n' -%}"
    "{%- elif m.role == 'user' -%}{{ bos_token }}"
    "{{ '[INST] ' + (held.text + m.content) | trim + ' [/INST]' }}"
    "{%- set held.text = '' -%}"
    "{%- else -%}{{ ' ' + m.content | trim + ' ' }}{{ eos_token }}{%- endif -%}"
    "{%- endfor -%}";

/* The system message stands in the last turn of the user, wherever that is. SentencePiece wants
 * a space where Tekken wants none. */
static const char mistral_v3[] =
    "{{ bos_token }}{%- set held = namespace(text='') -%}"
    "{%- for m in messages -%}{%- set thoughts = m.reasoning_content -%}"
    "{%- if m.role == 'system' -%}{%- set held.text = m.content + '\\n\\n' -%}"
    "{%- elif m.role == 'user' -%}"
    "{{ '[INST] ' + (held.text if loop.last else '') + m.content + '[/INST]' }}"
    "{%- else -%}{{ ' ' + m.content }}{{ eos_token }}{%- endif -%}"
    "{%- endfor -%}";

static const char mistral_v3_tekken[] =
    "{{ bos_token }}{%- set held = namespace(text='') -%}"
    "{%- for m in messages -%}{%- set thoughts = m.reasoning_content -%}"
    "{%- if m.role == 'system' -%}{%- set held.text = m.content + '\\n\\n' -%}"
    "{%- elif m.role == 'user' -%}"
    "{{ '[INST]' + (held.text if loop.last else '') + m.content + '[/INST]' }}"
    "{%- else -%}{{ m.content }}{{ eos_token }}{%- endif -%}"
    "{%- endfor -%}";

static const char mistral_v7[] =
    "{{ bos_token }}"
    "{%- for m in messages -%}{%- set thoughts = m.reasoning_content -%}"
    "{%- if m.role == 'system' -%}"
    "{{ '[SYSTEM_PROMPT] ' + m.content + '[/SYSTEM_PROMPT]' }}"
    "{%- elif m.role == 'user' -%}{{ '[INST] ' + m.content + '[/INST]' }}"
    "{%- else -%}{{ ' ' + m.content }}{{ eos_token }}{%- endif -%}"
    "{%- endfor -%}";

static const char mistral_v7_tekken[] =
    "{{ bos_token }}"
    "{%- for m in messages -%}{%- set thoughts = m.reasoning_content -%}"
    "{%- if m.role == 'system' -%}"
    "{{ '[SYSTEM_PROMPT]' + m.content + '[/SYSTEM_PROMPT]' }}"
    "{%- elif m.role == 'user' -%}{{ '[INST]' + m.content + '[/INST]' }}"
    "{%- else -%}{{ m.content }}{{ eos_token }}{%- endif -%}"
    "{%- endfor -%}";

static const char phi3[] =
    "{%- for m in messages -%}{%- set thoughts = m.reasoning_content -%}"
    "{{ '<|' + m.role + '|>\\n' + m.content + '<|end|>\\n' }}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{ '<|assistant|>\\n' }}{%- endif -%}";

static const char phi4_mini[] =
    "{%- for m in messages -%}{%- set thoughts = m.reasoning_content -%}"
    "{{ '<|' + m.role + '|>' + m.content + '<|end|>' }}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{ '<|assistant|>' }}{%- endif -%}";

static const char phi4[] =
    "{%- for m in messages -%}{%- set thoughts = m.reasoning_content -%}"
    "{{ '<|im_start|>' + m.role + '<|im_sep|>' + m.content + '<|im_end|>' }}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{ '<|im_start|>assistant<|im_sep|>' }}{%- endif -%}";

static const char falcon3[] =
    "{%- for m in messages -%}{%- set thoughts = m.reasoning_content -%}"
    "{{ '<|' + m.role + '|>\\n' + m.content }}"
    "{%- if m.role == 'assistant' -%}{{ eos_token }}{%- endif -%}{{ '\\n' }}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{ '<|assistant|>\\n' }}{%- endif -%}";

static const char zephyr[] =
    "{%- for m in messages -%}{%- set thoughts = m.reasoning_content -%}"
    "{{ '<|' + m.role + '|>\\n' + m.content }}{{ eos_token }}{{ '\\n' }}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{ '<|assistant|>\\n' }}{%- endif -%}";

static const char vicuna[] =
    "{{ bos_token }}"
    "{%- for m in messages -%}{%- set thoughts = m.reasoning_content -%}"
    "{%- if m.role == 'system' -%}{{ m.content + ' ' }}"
    "{%- elif m.role == 'user' -%}{{ 'USER: ' + m.content + ' ' }}"
    "{%- else -%}{{ 'ASSISTANT: ' + m.content }}{{ eos_token }}{%- endif -%}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{ 'ASSISTANT:' }}{%- endif -%}";

static const char deepseek3[] =
    "{{ bos_token }}"
    "{%- for m in messages -%}{%- set thoughts = m.reasoning_content -%}"
    "{%- if m.role == 'system' -%}{{ m.content }}"
    "{%- elif m.role == 'user' -%}{{ '<\uff5cUser\uff5c>' + m.content }}"
    "{%- else -%}"
    "{{ '<\uff5cAssistant\uff5c>' + m.content + "
    "'<\uff5cend\u2581of\u2581sentence\uff5c>' }}{%- endif -%}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{ '<\uff5cAssistant\uff5c>' }}{%- endif -%}";

static const char deepseek2[] =
    "{{ bos_token }}"
    "{%- for m in messages -%}{%- set thoughts = m.reasoning_content -%}"
    "{%- if m.role == 'system' -%}{{ m.content + '\\n\\n' }}"
    "{%- elif m.role == 'user' -%}{{ 'User: ' + m.content + '\\n\\n' }}"
    "{%- else -%}"
    "{{ 'Assistant: ' + m.content + '<\uff5cend\u2581of\u2581sentence\uff5c>' }}"
    "{%- endif -%}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{ 'Assistant:' }}{%- endif -%}";

static const char command_r[] =
    "{{ bos_token }}"
    "{%- for m in messages -%}{%- set thoughts = m.reasoning_content -%}"
    "{{ '<|START_OF_TURN_TOKEN|>' + {'system': '<|SYSTEM_TOKEN|>', 'user': "
    "'<|USER_TOKEN|>', 'assistant': '<|CHATBOT_TOKEN|>'}[m.role] + m.content | trim + "
    "'<|END_OF_TURN_TOKEN|>' }}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{ '<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>' }}"
    "{%- endif -%}";

static const char granite[] =
    "{%- for m in messages -%}{%- set thoughts = m.reasoning_content -%}"
    "{{ '<|start_of_role|>' + m.role + '<|end_of_role|>' + m.content + "
    "'<|end_of_text|>\\n' }}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{ '<|start_of_role|>assistant<|end_of_role|>' }}"
    "{%- endif -%}";

/* The model writes the line end after its own head. */
static const char glm4[] = "[gMASK]<sop>"
                           "{%- for m in messages -%}{%- set thoughts = m.reasoning_content -%}"
                           "{{ '<|' + m.role + '|>\\n' + m.content.lstrip('\\n') }}"
                           "{%- endfor -%}"
                           "{%- if add_generation_prompt -%}{{ '<|assistant|>' }}{%- endif -%}";

/* The same of a model that thinks, or is told not to. */
static const char glm45[] =
    "[gMASK]<sop>{%- set mute = enable_thinking is defined and not enable_thinking -%}"
    "{%- for m in messages -%}{%- set thoughts = m.reasoning_content -%}"
    "{%- if m.role == 'assistant' -%}"
    "{{ '<|assistant|>\\n<think></think>\\n' + m.content | trim }}"
    "{%- else -%}{{ '<|' + m.role + '|>\\n' + m.content }}"
    "{%- if mute and m.role == 'user' and not m.content.endswith('/nothink') -%}"
    "{{ '/nothink' }}{%- endif -%}{%- endif -%}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}"
    "{{ '<|assistant|>' + ('\\n<think></think>' if mute else '') }}{%- endif -%}";

/* An empty system turn where there is none. */
static const char exaone3[] =
    "{%- if messages and messages[0].role != 'system' -%}"
    "{{ '[|system|][|endofturn|]\\n' }}{%- endif -%}"
    "{%- for m in messages -%}{%- set thoughts = m.reasoning_content -%}"
    "{{ '[|' + m.role + '|]' + m.content | trim + ('' if m.role == 'user' else "
    "'[|endofturn|]') + '\\n' }}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{ '[|assistant|]' }}{%- endif -%}";

static const char minicpm[] =
    "{{ bos_token }}"
    "{%- for m in messages -%}{%- set thoughts = m.reasoning_content -%}"
    "{%- if m.role == 'user' -%}{{ '<\u7528\u6237>' + m.content | trim + '<AI>' }}"
    "{%- else -%}{{ m.content | trim }}{%- endif -%}"
    "{%- endfor -%}";

static const char hunyuan_dense[] =
    "{{ bos_token }}"
    "{%- for m in messages -%}{%- set thoughts = m.reasoning_content -%}"
    "{%- if m.role == 'system' -%}"
    "{{ m.content + '<\uff5chy_place\u2581holder\u2581no\u25813\uff5c>' }}"
    "{%- elif m.role == 'user' -%}{{ '<\uff5chy_User\uff5c>' + m.content }}"
    "{%- else -%}"
    "{{ '<\uff5chy_Assistant\uff5c>' + m.content + "
    "'<\uff5chy_place\u2581holder\u2581no\u25812\uff5c>' }}{%- endif -%}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{ '<\uff5chy_Assistant\uff5c>' }}{%- endif -%}";

static const char kimi_k2[] =
    "{%- if messages and messages[0].role != 'system' -%}"
    "{{ '<|im_system|>system<|im_middle|>You are a helpful assistant<|im_end|>' }}"
    "{%- endif -%}"
    "{%- for m in messages -%}{%- set thoughts = m.reasoning_content -%}"
    "{{ '<|im_' + m.role + '|>' + m.role + '<|im_middle|>' + m.content + '<|im_end|>' }}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{ '<|im_assistant|>assistant<|im_middle|>' }}"
    "{%- endif -%}";

/* Its makers let it see its earlier thoughts. */
static const char seed_oss[] =
    "{%- for m in messages -%}{%- set thoughts = m.reasoning_content -%}"
    "{{ '<seed:bos>' + m.role + '\\n' }}"
    "{%- if thoughts -%}{{ '<seed:think>' + thoughts + '</seed:think>\\n' }}{%- endif -%}"
    "{{ (m.content | trim if m.role == 'assistant' else m.content) + '<seed:eos>' }}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{ '<seed:bos>assistant\\n' }}{%- endif -%}";

/* Every reply begins with a thought. */
static const char minimax_m2[] =
    "{{ ']~!b[' }}"
    "{%- if messages and messages[0].role != 'system' -%}"
    "{{ ']~b]system\\nYou are a helpful assistant.[e~[\\n' }}{%- endif -%}"
    "{%- for m in messages -%}{%- set thoughts = m.reasoning_content -%}"
    "{{ ']~b]' + ('ai' if m.role == 'assistant' else m.role) + '\\n' + m.content + "
    "'[e~[\\n' }}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{ ']~b]ai\\n<think>\\n' }}{%- endif -%}";

/* Its system turn is always there, and each reply begins with a thought. */
static const char nemotron_nano[] =
    "{{ '<SPECIAL_10>System\\n' }}"
    "{%- if messages and messages[0].role == 'system' -%}{{ messages[0].content }}"
    "{%- endif -%}{{ '\\n\\n' }}"
    "{%- for m in messages -%}{%- set thoughts = m.reasoning_content -%}"
    "{%- if m.role == 'user' -%}{{ '<SPECIAL_11>User\\n' + m.content | trim + '\\n' }}"
    "{%- elif m.role == 'assistant' -%}"
    "{{ '<SPECIAL_11>Assistant\\n' + m.content | trim + '\\n<SPECIAL_12>\\n' }}"
    "{%- endif -%}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{ '<SPECIAL_11>Assistant\\n<think>\\n' }}"
    "{%- endif -%}";

/* The system message says whether to think; where there is none this one does. */
static const char bailing2[] =
    "{%- if messages and messages[0].role != 'system' -%}"
    "{{ '<role>SYSTEM</role>detailed thinking off<|role_end|>' }}{%- endif -%}"
    "{%- for m in messages -%}{%- set thoughts = m.reasoning_content -%}"
    "{{ '<role>' + {'system': 'SYSTEM', 'user': 'HUMAN', 'assistant': "
    "'ASSISTANT'}[m.role] + '</role>' + m.content + '<|role_end|>' }}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{ '<role>ASSISTANT</role>' }}{%- endif -%}";

/* Whether to think is the developer's to say, behind a system turn that is always there. */
static const char apertus[] =
    "{{ bos_token }}{{ '<|system_start|>' }}"
    "{%- if messages and messages[0].role == 'system' -%}{{ messages[0].content }}"
    "{%- else -%}"
    "{{ 'You are Apertus, a helpful assistant created by the SwissAI initiative.\\n"
    "Knowledge cutoff: 2024-04\\nCurrent date: ' + strftime_now('%Y-%m-%d') }}{%- endif -%}"
    "{{ '<|system_end|><|developer_start|>Deliberation: ' + ('enabled' if enable_thinking "
    "else 'disabled') + '\\nTool Capabilities: disabled<|developer_end|>' }}"
    "{%- for m in messages -%}{%- set thoughts = m.reasoning_content -%}"
    "{%- if m.role != 'system' -%}"
    "{{ '<|' + m.role + '_start|>' + m.content + '<|' + m.role + '_end|>' }}{%- endif -%}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{ '<|assistant_start|>' }}{%- endif -%}";

/* A reply without thought has an empty one before it, and so has every earlier reply. */
static const char exaone4[] =
    "{%- for m in messages -%}{%- set thoughts = m.reasoning_content -%}"
    "{{ '[|' + m.role + '|]\\n' + ('<think>\\n\\n</think>\\n\\n' if m.role == 'assistant' "
    "else '') + m.content + '[|endofturn|]\\n' }}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}"
    "{{ '[|assistant|]\\n<think>\\n' + ('' if enable_thinking else '\\n</think>\\n\\n') }}"
    "{%- endif -%}";

/* A turn of the user right behind the system's has no beginning of its own. */
static const char hunyuan_moe[] =
    "{%- for m in messages -%}{%- set thoughts = m.reasoning_content -%}"
    "{%- if m.role == 'system' -%}{{ '<|startoftext|>' + m.content + '<|extra_4|>' }}"
    "{%- elif m.role == 'user' -%}"
    "{{ ('' if loop.index0 == 1 and messages[0].role == 'system' else '<|startoftext|>') + "
    "m.content + '<|extra_0|>' }}"
    "{%- else -%}{{ m.content + '<|eos|>' }}{%- endif -%}"
    "{%- endfor -%}";

static const char dots1[] =
    "{%- for m in messages -%}{%- set thoughts = m.reasoning_content -%}"
    "{%- if m.role == 'system' -%}{{ '<|system|>' + m.content + '<|endofsystem|>' }}"
    "{%- elif m.role == 'user' -%}"
    "{{ '<|userprompt|>' + m.content + '<|endofuserprompt|>' }}"
    "{%- else -%}{{ '<|response|>' + m.content + '<|endofresponse|>' }}{%- endif -%}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{ '<|response|>' }}{%- endif -%}";

/* A vocabulary may hold the tokens of several: models distilled into another's, or that keep
 * those of their base. What is trained last is named first, and a set of tokens before what is
 * a part of it. "\u2581the" is in vocabularies of SentencePiece alone. */
static const struct builtin_template table[] = {
    {"gpt-oss", "gpt-oss's", {"<|start|>", "<|channel|>", "<|message|>"}, gpt_oss},
    {"gemma4", "Gemma 4's", {"<|turn>", "<turn|>"}, gemma4},
    {"gemma", "Gemma's", {"<start_of_turn>", "<end_of_turn>"}, gemma},
    {"deepseek3",
     "DeepSeek's",
     {"<\uff5cUser\uff5c>", "<\uff5cAssistant\uff5c>",
      "<\uff5cend\u2581of\u2581sentence\uff5c>"},
     deepseek3},
    {"llama4", "Llama 4's", {"<|header_start|>", "<|header_end|>", "<|eot|>"}, llama4},
    {"kimi-k2", "Kimi's", {"<|im_user|>", "<|im_assistant|>", "<|im_middle|>"}, kimi_k2},
    {"phi4", "Phi-4's", {"<|im_start|>", "<|im_sep|>", "<|im_end|>"}, phi4},
    {"qwen3", "Qwen 3's", {"<|im_start|>", "<|im_end|>", "<think>"}, qwen3},
    {"chatml", "ChatML's", {"<|im_start|>", "<|im_end|>"}, chatml},
    {"llama3", "Llama 3's", {"<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"}, llama3},
    {"command-r",
     "Command R's",
     {"<|START_OF_TURN_TOKEN|>", "<|USER_TOKEN|>", "<|CHATBOT_TOKEN|>"},
     command_r},
    {"granite", "Granite's", {"<|start_of_role|>", "<|end_of_role|>"}, granite},
    {"glm4.5", "GLM-4.5's", {"[gMASK]", "<sop>", "<|assistant|>", "<think>"}, glm45},
    {"glm4", "GLM-4's", {"[gMASK]", "<sop>", "<|user|>", "<|assistant|>"}, glm4},
    {"seed-oss", "Seed-OSS's", {"<seed:bos>", "<seed:eos>"}, seed_oss},
    {"exaone4", "EXAONE 4's", {"[|assistant|]", "[|endofturn|]", "<think>"}, exaone4},
    {"exaone3", "EXAONE's", {"[|assistant|]", "[|endofturn|]"}, exaone3},
    {"hunyuan-dense",
     "Hunyuan's",
     {"<\uff5chy_User\uff5c>", "<\uff5chy_Assistant\uff5c>"},
     hunyuan_dense},
    {"hunyuan-moe",
     "Hunyuan's",
     {"<|startoftext|>", "<|extra_0|>", "<|extra_4|>", "<|eos|>"},
     hunyuan_moe},
    {"apertus",
     "Apertus's",
     {"<|system_start|>", "<|user_start|>", "<|assistant_start|>"},
     apertus},
    {"dots1", "dots.llm1's", {"<|userprompt|>", "<|endofuserprompt|>", "<|response|>"}, dots1},
    {"minimax-m2", "MiniMax's", {"]~!b[", "]~b]", "[e~["}, minimax_m2},
    {"nemotron-nano",
     "Nemotron Nano's",
     {"<SPECIAL_10>", "<SPECIAL_11>", "<SPECIAL_12>"},
     nemotron_nano},
    {"bailing2", "Ling's", {"<role>", "</role>", "<|role_end|>"}, bailing2},
    {"minicpm", "MiniCPM's", {"<\u7528\u6237>", "<AI>"}, minicpm},
    {"mistral-v7", "Mistral's", {"[INST]", "[SYSTEM_PROMPT]", "\u2581the"}, mistral_v7},
    {"mistral-v7-tekken", "Mistral's", {"[INST]", "[SYSTEM_PROMPT]"}, mistral_v7_tekken},
    {"mistral-v3", "Mistral's", {"[INST]", "[/INST]", "\u2581the"}, mistral_v3},
    {"mistral-v3-tekken", "Mistral's", {"[INST]", "[/INST]"}, mistral_v3_tekken},
    {"phi3", "Phi-3's", {"<|user|>", "<|assistant|>", "<|end|>", "\u2581the"}, phi3},
    {"phi4-mini", "Phi-4 mini's", {"<|user|>", "<|assistant|>", "<|end|>"}, phi4_mini},
    {"falcon3", "Falcon 3's", {"<|user|>", "<|assistant|>", ">>ANSWER<<"}, falcon3},
    {"deepseek2",
     "DeepSeek's",
     {"<\uff5cbegin\u2581of\u2581sentence\uff5c>", "<\uff5cend\u2581of\u2581sentence\uff5c>"},
     deepseek2},
    /* Their turns are marked by words that any text may hold. */
    {"llama2", NULL, {NULL}, llama2},
    {"vicuna", NULL, {NULL}, vicuna},
    {"zephyr", NULL, {NULL}, zephyr},
    {"rwkv-world", NULL, {NULL}, rwkv_world},
    {"raw", NULL, {NULL}, raw},
};

const struct builtin_template *builtin_template_at(size_t i)
{
    return i < sizeof table / sizeof *table ? &table[i] : NULL;
}

const struct builtin_template *builtin_template_find(const char *name, size_t n)
{
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (strlen(table[i].name) == n && memcmp(table[i].name, name, n) == 0) return &table[i];
    return NULL;
}

const struct builtin_template *builtin_template_stand_in(const struct builtin_template *told)
{
    return told ? told : builtin_template_find("chatml", sizeof "chatml" - 1);
}

void builtin_template_why(const struct builtin_template *told, struct buf *out)
{
    if (told)
        buf_printf(out, "; its tokens are %s, so --template %s is used", told->whose,
                   told->name);
    else
        buf_puts(out, ", nor the tokens of one that is built in; using ChatML (--template raw "
                      "gives it the text as it stands, --template FILE another)");
}

const char *template_builtin(const char *name)
{
    const struct builtin_template *t = builtin_template_find(name, strlen(name));
    return t ? t->source : NULL;
}

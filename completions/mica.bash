# mica.bash - completions, made by 'mica help --completion bash'.
# SPDX-License-Identifier: MIT
_mica() {
    local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
    local options='' words='' operands='' files=no given=no
    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=($(compgen -W 'generate chat tokenize inspect plan eval bench help --help --version' -- "$current"))
        return
    fi
    case ${COMP_WORDS[1]} in
    generate)
        options='--prompt --prompt-file --tokens --prompts --prefill-response --prompt-cache-file --prompt-cache-ro --logprobs --system-prompt --chat-template --chat-template-config --ignore-chat-template --max-tokens --extra-eos-token --ignore-eos --stop --temp --top-p --min-p --top-k --typical-p --xtc-probability --xtc-threshold --repetition-penalty --repetition-context-size --presence-penalty --frequency-penalty --dry-multiplier --dry-base --dry-allowed-length --dry-window --dry-breaker --logit-bias --seed --model --memory-limit --device --threads --activations --no-mmap --context --kv --kv-bits --kv-memory --json --quiet --help --version'
        case $before in
        --prompt|-p) words='' given=yes ;;
        --prompt-file|-f) files=yes ;;
        --tokens) files=yes ;;
        --prompts) files=yes ;;
        --prefill-response) words='' given=yes ;;
        --prompt-cache-file) files=yes ;;
        --logprobs) words='' given=yes ;;
        --system-prompt) words='' given=yes ;;
        --chat-template) files=yes ;;
        --chat-template-config) words='' given=yes ;;
        --max-tokens|-m) words='' given=yes ;;
        --extra-eos-token) words='' given=yes ;;
        --stop) words='' given=yes ;;
        --temp) words='' given=yes ;;
        --top-p) words='' given=yes ;;
        --min-p) words='' given=yes ;;
        --top-k) words='' given=yes ;;
        --typical-p) words='' given=yes ;;
        --xtc-probability) words='' given=yes ;;
        --xtc-threshold) words='' given=yes ;;
        --repetition-penalty) words='' given=yes ;;
        --repetition-context-size) words='' given=yes ;;
        --presence-penalty) words='' given=yes ;;
        --frequency-penalty) words='' given=yes ;;
        --dry-multiplier) words='' given=yes ;;
        --dry-base) words='' given=yes ;;
        --dry-allowed-length) words='' given=yes ;;
        --dry-window) words='' given=yes ;;
        --dry-breaker) words='' given=yes ;;
        --logit-bias) words='' given=yes ;;
        --seed|-s) words='' given=yes ;;
        --model) files=yes ;;
        --memory-limit) words='' given=yes ;;
        --device) words='auto cpu' given=yes ;;
        --threads|-t) words='' given=yes ;;
        --activations) words='auto f32 int8 bf16' given=yes ;;
        --context|-c) words='' given=yes ;;
        --kv) words='f16 f32 bf16 q8 q4' given=yes ;;
        --kv-bits) words='none 8 4' given=yes ;;
        --kv-memory) words='' given=yes ;;
        esac ;;
    chat)
        options='--system-prompt --chat-template --chat-template-config --ignore-chat-template --max-tokens --extra-eos-token --ignore-eos --stop --temp --top-p --min-p --top-k --typical-p --xtc-probability --xtc-threshold --repetition-penalty --repetition-context-size --presence-penalty --frequency-penalty --dry-multiplier --dry-base --dry-allowed-length --dry-window --dry-breaker --logit-bias --seed --model --memory-limit --device --threads --activations --no-mmap --context --kv --kv-bits --kv-memory --quiet --help --version'
        case $before in
        --system-prompt) words='' given=yes ;;
        --chat-template) files=yes ;;
        --chat-template-config) words='' given=yes ;;
        --max-tokens|-m) words='' given=yes ;;
        --extra-eos-token) words='' given=yes ;;
        --stop) words='' given=yes ;;
        --temp) words='' given=yes ;;
        --top-p) words='' given=yes ;;
        --min-p) words='' given=yes ;;
        --top-k) words='' given=yes ;;
        --typical-p) words='' given=yes ;;
        --xtc-probability) words='' given=yes ;;
        --xtc-threshold) words='' given=yes ;;
        --repetition-penalty) words='' given=yes ;;
        --repetition-context-size) words='' given=yes ;;
        --presence-penalty) words='' given=yes ;;
        --frequency-penalty) words='' given=yes ;;
        --dry-multiplier) words='' given=yes ;;
        --dry-base) words='' given=yes ;;
        --dry-allowed-length) words='' given=yes ;;
        --dry-window) words='' given=yes ;;
        --dry-breaker) words='' given=yes ;;
        --logit-bias) words='' given=yes ;;
        --seed|-s) words='' given=yes ;;
        --model) files=yes ;;
        --memory-limit) words='' given=yes ;;
        --device) words='auto cpu' given=yes ;;
        --threads|-t) words='' given=yes ;;
        --activations) words='auto f32 int8 bf16' given=yes ;;
        --context|-c) words='' given=yes ;;
        --kv) words='f16 f32 bf16 q8 q4' given=yes ;;
        --kv-bits) words='none 8 4' given=yes ;;
        --kv-memory) words='' given=yes ;;
        esac ;;
    tokenize)
        options='--file --decode --messages --tools --render --no-generation-prompt --plain --no-special --system-prompt --chat-template --chat-template-config --ignore-chat-template --model --memory-limit --json --quiet --help --version'
        case $before in
        --file|-f) files=yes ;;
        --messages) files=yes ;;
        --tools) files=yes ;;
        --system-prompt) words='' given=yes ;;
        --chat-template) files=yes ;;
        --chat-template-config) words='' given=yes ;;
        --model) files=yes ;;
        --memory-limit) words='' given=yes ;;
        esac ;;
    inspect)
        options='--tensor --verify --full --model --memory-limit --json --quiet --help --version'
        case $before in
        --tensor) words='' given=yes ;;
        --model) files=yes ;;
        --memory-limit) words='' given=yes ;;
        esac ;;
    plan)
        options='--batch --model --memory-limit --device --threads --activations --no-mmap --context --kv --kv-bits --kv-memory --json --quiet --help --version'
        case $before in
        --batch|-b) words='' given=yes ;;
        --model) files=yes ;;
        --memory-limit) words='' given=yes ;;
        --device) words='auto cpu' given=yes ;;
        --threads|-t) words='' given=yes ;;
        --activations) words='auto f32 int8 bf16' given=yes ;;
        --context|-c) words='' given=yes ;;
        --kv) words='f16 f32 bf16 q8 q4' given=yes ;;
        --kv-bits) words='none 8 4' given=yes ;;
        --kv-memory) words='' given=yes ;;
        esac ;;
    eval)
        options='--tokens --out --data --model --memory-limit --device --threads --activations --no-mmap --context --kv --kv-bits --kv-memory --json --quiet --help --version'
        case $before in
        --tokens) files=yes ;;
        --out|-o) files=yes ;;
        --data) files=yes ;;
        --model) files=yes ;;
        --memory-limit) words='' given=yes ;;
        --device) words='auto cpu' given=yes ;;
        --threads|-t) words='' given=yes ;;
        --activations) words='auto f32 int8 bf16' given=yes ;;
        --context|-c) words='' given=yes ;;
        --kv) words='f16 f32 bf16 q8 q4' given=yes ;;
        --kv-bits) words='none 8 4' given=yes ;;
        --kv-memory) words='' given=yes ;;
        esac
        operands='logits perplexity' ;;
    bench)
        options='--prompt-tokens --gen-tokens --depth --batch --repeats --kv --model --memory-limit --device --threads --activations --no-mmap --json --quiet --help --version'
        case $before in
        --prompt-tokens|-p) words='' given=yes ;;
        --gen-tokens|-n) words='' given=yes ;;
        --depth|-d) words='' given=yes ;;
        --batch|-b) words='' given=yes ;;
        --repeats|-r) words='' given=yes ;;
        --kv) words='f16 f32 bf16 q8 q4' given=yes ;;
        --model) files=yes ;;
        --memory-limit) words='' given=yes ;;
        --device) words='auto cpu' given=yes ;;
        --threads|-t) words='' given=yes ;;
        --activations) words='auto f32 int8 bf16' given=yes ;;
        esac ;;
    help)
        options='--man --completion'
        case $before in
        --completion) words='' given=yes ;;
        esac
        operands='generate chat tokenize inspect plan eval bench help' ;;
    *) return ;;
    esac
    if [ $given = yes ]; then
        COMPREPLY=($(compgen -W "$words" -- "$current"))
    elif [ $files = no ] && [ "${current#-}" != "$current" ]; then
        COMPREPLY=($(compgen -W "$options" -- "$current"))
    elif [ -n "$operands" ] && [ $files = no ]; then
        COMPREPLY=($(compgen -W "$operands" -- "$current"))
    else
        compopt -o filenames 2>/dev/null
        COMPREPLY=($(compgen -f -- "$current"))
    fi
}
complete -F _mica mica

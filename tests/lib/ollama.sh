# A folder as Ollama keeps one. ollama_put NAME KIND FILE...: makes the model NAME:latest of files
# of these kinds (model, adapter, system, params, messages, template).
ollama=${ollama:-$HOME/.ollama/models}
ollama_put()
{
    local name=$1 layers= sum
    shift
    mkdir -p "$ollama/blobs" "$ollama/manifests/registry.ollama.ai/library/$name"
    while [ $# -gt 0 ]; do
        sum=$(sha256sum "$2" | cut -d ' ' -f 1)
        [ -e "$ollama/blobs/sha256-$sum" ] || cp "$2" "$ollama/blobs/sha256-$sum"
        layers=$layers${layers:+,}'{"mediaType":"application/vnd.ollama.image.'$1'","digest":"sha256:'$sum'"}'
        shift 2
    done
    printf '{"schemaVersion":2,"layers":[%s]}' "$layers" \
        >"$ollama/manifests/registry.ollama.ai/library/$name/latest"
}

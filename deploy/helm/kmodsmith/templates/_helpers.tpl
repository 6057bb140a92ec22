{{/* SPDX-License-Identifier: Apache-2.0
     Objects are those of deploy/*.yaml, which files/ links to: here is only what values change. */}}

{{/* The text of a file, with the registry of the values. dict "root" "file" */}}
{{- define "kmodsmith.file" -}}
{{- .root.Files.Get (printf "files/%s.yaml" .file) | replace "registry.example/drivers" .root.Values.registry -}}
{{- end }}

{{/* dict "root" "image" (of values.images) "tag" (the default) */}}
{{- define "kmodsmith.image" -}}
{{- $name := printf "%s/%s" .root.Values.registry .image.name -}}
{{- if .image.digest -}}
{{ $name }}@{{ .image.digest }}
{{- else -}}
{{ $name }}:{{ .image.tag | default .tag }}
{{- end -}}
{{- end }}

{{- define "kmodsmith.driverImage" -}}
{{- $image := .Values.images.driver -}}
{{- if not (or .Values.driver.version $image.tag $image.digest) -}}
{{- fail "which driver? Set driver.version, such as --set driver.version=580.95.05: the tag of the driver image" -}}
{{- end -}}
{{- include "kmodsmith.image" (dict "root" . "image" $image "tag" .Values.driver.version) -}}
{{- end }}

{{- define "kmodsmith.runtimeImage" -}}
{{- include "kmodsmith.image" (dict "root" . "image" .Values.images.runtime "tag" .Chart.AppVersion) -}}
{{- end }}

{{/* What values put into the environment of the pods that load drivers, as a JSON object */}}
{{- define "kmodsmith.environment" -}}
{{- $v := .Values -}}
{{- $env := dict "KMODSMITH_FROM" (join "," ($v.from | default (list (printf "docker://%s" $v.registry)))) -}}
{{- if or $v.trust.keys $v.existingConfigMap }}{{ $_ := set $env "KMODSMITH_TRUST_DIR" "/drivers" }}{{ end -}}
{{- if $v.registrySecret }}{{ $_ := set $env "KMODSMITH_AUTH_FILE" "/auth/.dockerconfigjson" }}{{ end -}}
{{- if $v.caConfigMap }}{{ $_ := set $env "KMODSMITH_CA" "/ca" }}{{ end -}}
{{- if $v.bundle }}{{ $_ := set $env "KMODSMITH_BUNDLE" "/bundle.tar" }}{{ end -}}
{{- if $v.driver.flavour }}{{ $_ := set $env "KERNEL_MODULE_TYPE" $v.driver.flavour }}{{ end -}}
{{- range $name, $value := $v.env }}{{ $_ := set $env $name (toString $value) }}{{ end -}}
{{- toJson $env -}}
{{- end }}

{{/* Volumes beside those of the file, with where each is mounted, as a JSON list */}}
{{- define "kmodsmith.volumes" -}}
{{- $v := .Values -}}
{{- $list := list -}}
{{- with $v.registrySecret }}{{ $list = append $list (dict "path" "/auth" "volume" (dict "name" "auth" "secret" (dict "secretName" .))) }}{{ end -}}
{{- with $v.caConfigMap }}{{ $list = append $list (dict "path" "/ca" "volume" (dict "name" "ca" "configMap" (dict "name" .))) }}{{ end -}}
{{- with $v.bundle -}}
{{- $list = append $list (dict "path" "/bundle.tar" "volume" (dict "name" "bundle" "hostPath" (dict "path" . "type" "File"))) -}}
{{- end -}}
{{- toJson $list -}}
{{- end }}

{{/* One term for each GPU label, each with what the file asks of nodes, as a JSON list */}}
{{- define "kmodsmith.terms" -}}
{{- $asked := list -}}
{{- range dig "nodeAffinity" "requiredDuringSchedulingIgnoredDuringExecution" "nodeSelectorTerms" list (.pod.affinity | default dict) -}}
{{- $asked = concat $asked .matchExpressions -}}
{{- end -}}
{{- $terms := list -}}
{{- range .root.Values.nodes.gpuLabels -}}
{{- $terms = append $terms (dict "matchExpressions" (append $asked (dict "key" . "operator" "In" "values" (list "true")))) -}}
{{- end -}}
{{- toJson $terms -}}
{{- end }}

{{/* What all pods get. dict "root" "pod" "image" */}}
{{- define "kmodsmith.pod" -}}
{{- $container := first .pod.containers -}}
{{- $_ := set $container "image" .image -}}
{{- $_ := set $container "imagePullPolicy" .root.Values.images.pullPolicy -}}
{{- $secrets := list -}}
{{- range .root.Values.images.pullSecrets }}{{ $secrets = append $secrets (dict "name" .) }}{{ end -}}
{{- if $secrets }}{{ $_ := set .pod "imagePullSecrets" $secrets }}{{ end -}}
{{- if not .root.Values.metrics.enabled -}}
{{- $env := list -}}
{{- range $container.env }}{{ if ne .name "KMODSMITH_LISTEN" }}{{ $env = append $env . }}{{ end }}{{ end -}}
{{- $_ := set $container "env" $env -}}
{{- $_ := unset $container "ports" -}}
{{- end -}}
{{- end }}

{{/* A DaemonSet whose pods load drivers. dict "root" "file" "image" */}}
{{- define "kmodsmith.daemonset" -}}
{{- $v := .root.Values -}}
{{- $object := include "kmodsmith.file" . | fromYaml -}}
{{- $pod := $object.spec.template.spec -}}
{{- $container := first $pod.containers -}}
{{- include "kmodsmith.pod" (dict "root" .root "pod" $pod "image" .image) -}}
{{- $set := include "kmodsmith.environment" .root | fromJson -}}
{{- $env := list -}}
{{- range $container.env }}{{ if not (hasKey $set .name) }}{{ $env = append $env . }}{{ end }}{{ end -}}
{{- range $name, $value := $set }}{{ $env = append $env (dict "name" $name "value" $value) }}{{ end -}}
{{- $_ := set $container "env" $env -}}
{{- range include "kmodsmith.volumes" .root | fromJsonArray -}}
{{- $_ := set $pod "volumes" (append $pod.volumes .volume) -}}
{{- $_ := set $container "volumeMounts" (append $container.volumeMounts (dict "name" .volume.name "mountPath" .path "readOnly" true)) -}}
{{- end -}}
{{- range $pod.volumes -}}
{{- if eq .name "parameters" }}{{ $_ := set .configMap "name" ($v.existingConfigMap | default .configMap.name) }}{{ end -}}
{{- if and (eq .name "policy") (eq (dig "mode" "" $v.policy) "self") }}{{ $_ := set .configMap "name" "kmodsmith-policy" }}{{ end -}}
{{- end -}}
{{- $terms := include "kmodsmith.terms" (dict "root" .root "pod" $pod) | fromJsonArray -}}
{{- if $terms -}}
{{- $_ := set $pod "affinity" (dict "nodeAffinity" (dict "requiredDuringSchedulingIgnoredDuringExecution" (dict "nodeSelectorTerms" $terms))) -}}
{{- end -}}
{{- if $v.nodes.selector }}{{ $_ := set $pod "nodeSelector" (merge dict $v.nodes.selector ($pod.nodeSelector | default dict)) }}{{ end -}}
{{- $_ := set $pod "tolerations" (concat $pod.tolerations $v.nodes.tolerations) -}}
{{- $_ := set $container "resources" $v.nodes.resources -}}
{{- toYaml $object -}}
{{- end }}

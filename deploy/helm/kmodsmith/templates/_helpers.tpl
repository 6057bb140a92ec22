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

{{/* What every object gets: labels, and the site's name where nothing else names it. dict "root" "object", "component" where its name does not tell */}}
{{- define "kmodsmith.object" -}}
{{- $object := .object -}}
{{- $component := .component | default (regexFind "agent|builder|coordinator|driver|uninstall" $object.metadata.name) -}}
{{- $labels := include "kmodsmith.labels" (dict "root" .root "component" $component) | fromYaml -}}
{{- $_ := set $object.metadata "labels" (merge dict $labels ($object.metadata.labels | default dict)) -}}
{{- if dig "spec" "template" dict $object -}}
{{- $metadata := $object.spec.template.metadata -}}
{{- $_ := set $metadata "labels" (merge dict $labels $metadata.labels) -}}
{{- end -}}
{{- if has $object.kind (list "DaemonSet" "Deployment" "PodDisruptionBudget" "NetworkPolicy" "PodMonitor" "PrometheusRule") -}}
{{- $_ := set $object.metadata "name" (regexReplaceAll "^kmodsmith" $object.metadata.name (include "kmodsmith.fullname" .root)) -}}
{{- end -}}
{{- if eq $object.kind "ServiceAccount" -}}
{{- $of := get (dict "agent" "nodes" "builder" "builders") $component | default "coordinator" -}}
{{- with dig $of "serviceAccount" "annotations" dict .root.Values.AsMap -}}
{{- $_ := set $object.metadata "annotations" (merge dict . ($object.metadata.annotations | default dict)) -}}
{{- end -}}
{{- end }}
---
{{ toYaml $object }}
{{- end }}

{{/* The objects of a file. dict "root" "file" */}}
{{- define "kmodsmith.objects" -}}
{{- $root := .root -}}
{{- range splitList "\n---\n" (include "kmodsmith.file" .) -}}
{{- include "kmodsmith.object" (dict "root" $root "object" (fromYaml .)) -}}
{{- end -}}
{{- end }}

{{/* The name of what only the cluster looks at. Roles, accounts and ConfigMaps have those that the program and admission policies know. */}}
{{- define "kmodsmith.fullname" -}}
{{- .Values.fullnameOverride | default "kmodsmith" -}}
{{- end }}

{{/* app.kubernetes.io/name is what selectors ask for, and never changes: those of a DaemonSet cannot. dict "root" "component" */}}
{{- define "kmodsmith.labels" -}}
{{- $isProgram := has .component (list "agent" "builder" "coordinator" "driver" "uninstall") -}}
app.kubernetes.io/name: {{ ternary (printf "kmodsmith-%s" .component) "kmodsmith" $isProgram }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
app.kubernetes.io/part-of: kmodsmith
app.kubernetes.io/component: {{ .component }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{- end }}

{{/* Whether the cluster may be asked: --reuse-values has no `lookup` of a chart that had none */}}
{{- define "kmodsmith.asks" -}}
{{- if ne (toString .Values.lookup) "false" }}yes{{ end -}}
{{- end }}

{{/* Our DaemonSets that the cluster has, as JSON: {"items": [...]} */}}
{{- define "kmodsmith.live" -}}
{{- $live := list -}}
{{- if include "kmodsmith.asks" . -}}
{{- range (lookup "apps/v1" "DaemonSet" "kmodsmith" "").items -}}
{{- if has (dig "metadata" "labels" "app.kubernetes.io/name" "" .) (list "kmodsmith-driver" "kmodsmith-agent" "kmodsmith-builder") }}{{ $live = append $live . }}{{ end -}}
{{- end -}}
{{- end -}}
{{- toJson (dict "items" $live) -}}
{{- end }}

{{/* A cluster that has the object of another owner keeps it as it is: dict "root" "object" */}}
{{- define "kmodsmith.isOthers" -}}
{{- $o := .object -}}
{{- if include "kmodsmith.asks" .root -}}
{{- with lookup $o.apiVersion $o.kind ($o.metadata.namespace | default "") $o.metadata.name -}}
{{- if ne (dig "metadata" "annotations" "meta.helm.sh/release-name" "" .) $.root.Release.Name }}yes{{ end -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* Those of the values. Without any: those of NVIDIA's charts and of Node Feature Discovery; but where pods run on all nodes, of an
     older release, they do not leave nodes. As JSON: {"items": [...]} */}}
{{- define "kmodsmith.gpuLabels" -}}
{{- $labels := list "nvidia.com/gpu.present" -}}
{{- range list "10de" "0302_10de" "0300_10de" }}{{ $labels = append $labels (printf "feature.node.kubernetes.io/pci-%s.present" .) }}{{ end -}}
{{- if kindIs "slice" .Values.nodes.gpuLabels -}}
{{- $labels = .Values.nodes.gpuLabels -}}
{{- else -}}
{{- range (include "kmodsmith.live" . | fromJson).items -}}
{{- $asked := toJson (dig "spec" "template" "spec" "affinity" dict .) -}}
{{- if not (or (eq (index .metadata.labels "app.kubernetes.io/name") "kmodsmith-builder") (contains `"values":["true"]` $asked)) }}{{ $labels = list }}{{ end -}}
{{- end -}}
{{- end -}}
{{- toJson (dict "items" $labels) -}}
{{- end }}

{{/* What the file asks of nodes, and the site, and one of the labels, as JSON. dict "own" "site" (affinities) "labels" */}}
{{- define "kmodsmith.affinity" -}}
{{- $own := dig "nodeAffinity" "requiredDuringSchedulingIgnoredDuringExecution" "nodeSelectorTerms" list .own -}}
{{- $site := dig "nodeAffinity" "requiredDuringSchedulingIgnoredDuringExecution" "nodeSelectorTerms" list .site -}}
{{- $labels := list -}}
{{- range .labels }}{{ $labels = append $labels (dict "matchExpressions" (list (dict "key" . "operator" "In" "values" (list "true")))) }}{{ end -}}
{{- $terms := list -}}
{{- range $a := $own | default (list dict) -}}
{{- range $b := $site | default (list dict) -}}
{{- range $c := $labels | default (list dict) -}}
{{- $term := dict -}}
{{- $expressions := concat ($a.matchExpressions | default list) ($b.matchExpressions | default list) ($c.matchExpressions | default list) -}}
{{- with $expressions }}{{ $_ := set $term "matchExpressions" . }}{{ end -}}
{{- with $b.matchFields }}{{ $_ := set $term "matchFields" . }}{{ end -}}
{{- if $term }}{{ $terms = append $terms $term }}{{ end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $affinity := mergeOverwrite (deepCopy .own) (deepCopy .site) -}}
{{- if $terms -}}
{{- $node := $affinity.nodeAffinity | default dict -}}
{{- $_ := set $node "requiredDuringSchedulingIgnoredDuringExecution" (dict "nodeSelectorTerms" $terms) -}}
{{- $_ := set $affinity "nodeAffinity" $node -}}
{{- end -}}
{{- toJson $affinity -}}
{{- end }}

{{/* What all pods get. dict "root" "object" "image" "set" (nodes, builders or coordinator of the values), "labels" of which a node needs one */}}
{{- define "kmodsmith.pod" -}}
{{- $pod := .object.spec.template.spec -}}
{{- $metadata := .object.spec.template.metadata -}}
{{- $container := first $pod.containers -}}
{{- $_ := set $container "image" .image -}}
{{- $_ := set $container "imagePullPolicy" .root.Values.images.pullPolicy -}}
{{- $secrets := list -}}
{{- range .root.Values.images.pullSecrets }}{{ $secrets = append $secrets (dict "name" .) }}{{ end -}}
{{- if $secrets }}{{ $_ := set $pod "imagePullSecrets" $secrets }}{{ end -}}
{{- if not .root.Values.metrics.enabled -}}
{{- $env := list -}}
{{- range $container.env }}{{ if ne .name "KMODSMITH_LISTEN" }}{{ $env = append $env . }}{{ end }}{{ end -}}
{{- $_ := set $container "env" $env -}}
{{- $_ := unset $container "ports" -}}
{{- end -}}
{{- with .set.podAnnotations }}{{ $_ := set $metadata "annotations" . }}{{ end -}}
{{- with .set.podLabels }}{{ $_ := set $metadata "labels" (merge dict $metadata.labels .) }}{{ end -}}
{{- with merge dict (.set.nodeSelector | default dict) (.set.selector | default dict) ($pod.nodeSelector | default dict) }}{{ $_ := set $pod "nodeSelector" . }}{{ end -}}
{{- with concat ($pod.tolerations | default list) (.set.tolerations | default list) }}{{ $_ := set $pod "tolerations" . }}{{ end -}}
{{- with .set.priorityClassName }}{{ $_ := set $pod "priorityClassName" . }}{{ end -}}
{{- with .set.resources }}{{ $_ := set $container "resources" . }}{{ end -}}
{{- $affinity := include "kmodsmith.affinity" (dict "own" ($pod.affinity | default dict) "site" (.set.affinity | default dict) "labels" .labels) | fromJson -}}
{{- if $affinity }}{{ $_ := set $pod "affinity" $affinity }}{{ end -}}
{{- end }}

{{/* A DaemonSet whose pods load drivers. dict "root" "file" "image" "set" */}}
{{- define "kmodsmith.daemonset" -}}
{{- $v := .root.Values -}}
{{- $object := include "kmodsmith.file" . | fromYaml -}}
{{- $pod := $object.spec.template.spec -}}
{{- $container := first $pod.containers -}}
{{- $labels := (include "kmodsmith.gpuLabels" .root | fromJson).items -}}
{{- include "kmodsmith.pod" (dict "root" .root "object" $object "image" .image "set" .set "labels" $labels) -}}
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
{{- include "kmodsmith.object" (dict "root" .root "object" $object) -}}
{{- end }}

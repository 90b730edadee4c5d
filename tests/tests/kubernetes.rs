//! The DaemonSet asks for no more than it has to.

use anyhow::{Context as _, Result, ensure};
use noise_tests::packages::{HEALTH_COMMAND, IMAGE};
use noise_tests::pages;
use serde_json::{Value, json};

const MANIFEST: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/kubernetes/noised.yaml"));

fn of_kind(kind: &str) -> Result<Value> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(MANIFEST)?;
    let mut found = documents.into_iter().filter(|document| document["kind"] == kind);
    let document = found.next().with_context(|| format!("there is no {kind}"))?;
    ensure!(found.next().is_none(), "more than one {kind}");
    Ok(document)
}

fn pod() -> Result<Value> {
    Ok(of_kind("DaemonSet")?["spec"]["template"].clone())
}

fn container() -> Result<Value> {
    let containers = pod()?["spec"]["containers"].clone();
    ensure!(containers.as_array().map(Vec::len) == Some(1), "not one container: {containers}");
    Ok(containers[0].clone())
}

const MONITOR: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/kubernetes/podmonitor.yaml"));

/// Else the labels of noised's own pod would take the place of those of the pods that are delayed.
#[test]
fn the_monitor_finds_the_pods_and_honors_their_labels() -> Result<()> {
    let monitor: Value = serde_saphyr::from_str(MONITOR)?;
    assert_eq!(monitor["spec"]["selector"], of_kind("DaemonSet")?["spec"]["selector"]);
    assert_eq!(monitor["metadata"]["namespace"], of_kind("DaemonSet")?["metadata"]["namespace"]);
    let endpoints = &monitor["spec"]["podMetricsEndpoints"];
    assert_eq!(endpoints[0]["port"], container()?["ports"][0]["name"]);
    assert_eq!(endpoints[0]["honorLabels"], true);
    Ok(())
}

#[test]
fn privileges_are_two_capabilities() -> Result<()> {
    let context = &container()?["securityContext"];
    assert_eq!(context["capabilities"], json!({"drop": ["ALL"], "add": ["BPF", "PERFMON"]}));
    assert_eq!(context["allowPrivilegeEscalation"], false);
    assert_eq!(context["privileged"], false);
    assert_eq!(context["readOnlyRootFilesystem"], true);
    // Engines give capabilities to root only.
    assert_eq!(context["runAsUser"], 0);
    let pod = pod()?;
    assert_eq!(pod["spec"]["hostPID"], true);
    assert!(pod["spec"]["securityContext"]["seccompProfile"]["type"].is_string());
    assert_eq!(pod["spec"]["automountServiceAccountToken"], false);
    assert_eq!(of_kind("ServiceAccount")?["automountServiceAccountToken"], false);
    Ok(())
}

#[test]
fn nothing_of_the_node_can_be_written() -> Result<()> {
    let (pod, container) = (pod()?, container()?);
    let volumes = pod["spec"]["volumes"].as_array().expect("volumes").clone();
    let mounts = container["volumeMounts"].as_array().expect("mounts").clone();
    let mut of_node = Vec::new();
    for volume in &volumes {
        let mount = mounts.iter().find(|mount| mount["name"] == volume["name"]);
        let mount = mount.unwrap_or_else(|| panic!("{volume} is not used"));
        if let Some(path) = volume["hostPath"]["path"].as_str() {
            assert_eq!(mount["readOnly"], true, "{mount}");
            assert_eq!(mount["mountPath"], path);
            of_node.push(path);
        }
    }
    let expected = ["/sys/kernel/btf", "/sys/fs/cgroup", "/var/log/pods", "/var/log/containers"];
    assert_eq!(of_node, expected);
    assert_eq!(volumes.len(), mounts.len());
    Ok(())
}

#[test]
fn port_and_annotations_lead_to_the_one_address_that_is_listened_on() -> Result<()> {
    let (pod, container) = (pod()?, container()?);
    let port = container["ports"][0]["containerPort"].as_u64().expect("a port");
    let listened = json!(["--web.listen-address", format!("$(POD_IP):{port}")]);
    let arguments = container["args"].as_array().expect("arguments");
    assert!(arguments.windows(2).any(|pair| json!(pair) == listened), "{arguments:?}");
    let address = &container["env"][0];
    assert_eq!(address["name"], "POD_IP");
    assert_eq!(address["valueFrom"]["fieldRef"]["fieldPath"], "status.podIP");
    assert_eq!(container["readinessProbe"]["tcpSocket"]["port"], container["ports"][0]["name"]);
    let annotations = &pod["metadata"]["annotations"];
    assert_eq!(annotations["prometheus.io/scrape"], "true");
    assert_eq!(annotations["prometheus.io/port"], port.to_string());
    assert_eq!(annotations["prometheus.io/path"], "/metrics");
    Ok(())
}

/// A web configuration file can require passwords and certificates on the port.
#[test]
fn probes_need_no_password_whatever_the_web_file_asks() -> Result<()> {
    let container = container()?;
    for probe in ["startupProbe", "readinessProbe", "livenessProbe"] {
        assert!(container[probe]["httpGet"].is_null(), "{probe}");
    }
    for probe in ["startupProbe", "livenessProbe"] {
        assert_eq!(container[probe]["exec"]["command"], json!(HEALTH_COMMAND));
    }
    // The folder of the socket, in a container that cannot be written to.
    let config = of_kind("ConfigMap")?["data"]["noised.toml"].clone();
    let config = config.as_str().expect("a configuration");
    assert!(!config.contains("[socket]"), "{config}");
    let mounts = container["volumeMounts"].as_array().expect("mounts").clone();
    let run = mounts.iter().find(|mount| mount["mountPath"] == "/run/noised").expect("/run/noised");
    assert!(run["readOnly"].is_null(), "{run}");
    Ok(())
}

/// What is commented out, so that there is a place to turn protection on.
#[test]
fn the_web_file_has_its_places() -> Result<()> {
    let named = "/etc/noised-web";
    let lines: Vec<&str> = MANIFEST.lines().map(str::trim).collect();
    for line in [
        "#config.file = \"/etc/noised-web/web.yml\"",
        "#  mountPath: /etc/noised-web",
        "#    secretName: noised-web",
    ] {
        assert!(lines.contains(&line), "{line}");
    }
    // With the marks taken away it is still a manifest, and mounts what it names.
    let plain = MANIFEST.replace("#- name: web", "- name: web").replace("#  ", "  ");
    let documents: Vec<Value> = serde_saphyr::from_multiple(&plain)?;
    let set = documents.iter().find(|document| document["kind"] == "DaemonSet");
    let pod = &set.context("no DaemonSet")?["spec"]["template"]["spec"];
    let last = |list: &Value| list.as_array().and_then(|list| list.last()).cloned();
    let mount = last(&pod["containers"][0]["volumeMounts"]).context("no mounts")?;
    let volume = last(&pod["volumes"]).context("no volumes")?;
    assert_eq!((&mount["mountPath"], &mount["name"]), (&json!(named), &volume["name"]));
    assert_eq!(volume["secret"]["secretName"], "noised-web");
    Ok(())
}

#[test]
fn it_is_evicted_late_and_evicts_nothing() -> Result<()> {
    let class = of_kind("PriorityClass")?;
    assert_eq!(pod()?["spec"]["priorityClassName"], class["metadata"]["name"]);
    assert_eq!(
        (&class["preemptionPolicy"], &class["globalDefault"]),
        (&json!("Never"), &json!(false))
    );
    assert!(class["value"].as_i64() > Some(0));
    Ok(())
}

#[test]
fn resources_are_bounded_and_every_node_is_watched() -> Result<()> {
    let (pod, container) = (pod()?, container()?);
    for bound in ["requests", "limits"] {
        for resource in ["cpu", "memory"] {
            assert!(container["resources"][bound][resource].is_string(), "{bound} of {resource}");
        }
    }
    assert_eq!(pod["spec"]["tolerations"], json!([{"operator": "Exists"}]));
    let (set, labels) = (of_kind("DaemonSet")?, &pod["metadata"]["labels"]);
    assert_eq!(&set["spec"]["selector"]["matchLabels"], labels);
    Ok(())
}

#[test]
fn the_image_has_the_name_that_its_archive_gives_it() -> Result<()> {
    // The live test of the archive holds its name against the same one.
    assert_eq!(container()?["image"], IMAGE);
    let named = concat!("noised:", env!("CARGO_PKG_VERSION"));
    let pages = pages::texts()?.join("\n");
    let shown: Vec<_> = pages.split_whitespace().filter(|word| word.contains(named)).collect();
    assert_eq!(shown, [IMAGE]);
    Ok(())
}

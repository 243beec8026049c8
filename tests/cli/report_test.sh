#!/usr/bin/env bash
# `report` shows what a run's report says: in the terminal, and as a page that a browser takes. What is no report: tests/cases/report.txt.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
CASE="$WORK/llama"
cp -r "$TESTS/data/megatron/llama-tp2-pp2-vpp2-legacy-bf16" "$CASE"
with_tokenizer "$CASE"
report="$WORK/report.json"

# shows TEXT...: standard output of the last command holds each.
shows() {
    local text
    for text in "$@"; do
        grep -qF -- "$text" "$WORK/out" || fail "no '$text' in: $(head -c 3000 "$WORK/out")"
    done
}

merge_case "$CASE" "$WORK/model" 3 --report "$report"
expect_code 0 "$SHARDWELD" report "$report"
shows "39 tensors in 1 file, 311 kB" "where 344 kB went" "written" "90.5 %" "padding" "ignored" "execute" "every stored byte accounted for" "no warnings" "merge --local_dir $CASE/source"
[[ "$(grep -cE '^ +[0-2]  ' "$WORK/out")" == 3 ]] || fail "not a line for each of 3 ranks"
LC_ALL=C grep -q '[^ -~]' "$WORK/out" && fail "characters that not every terminal has"

# Each rank's phases are in the report, and they are those of the run; one rank of the host reads the metadata and binds for all.
python3 - "$report" <<'P' || fail "the ranks' phases"
import json, sys
report = json.load(open(sys.argv[1]))
names = [phase["name"] for phase in report["phases"]]
assert len(report["ranks"]) == 3 and "execute" in names
for rank in report["ranks"]:
    own = [name for name in names if rank["rank"] == 0 or name not in ("survey", "bind")]
    assert [phase["name"] for phase in rank["phases"]] == own, rank
P

# One page, from one rank only, that names nothing outside of itself.
expect_code 0 mpirun -n 3 "$SHARDWELD" report "$report" --html "$WORK/page.html"
[[ "$(wc -l <"$WORK/out")" == 1 ]] || fail "said more than once: $(cat "$WORK/out")"
python3 - "$WORK/page.html" <<'P' || fail "the page"
import html.parser, sys
class Page(html.parser.HTMLParser):
    open_tags, tags, single = [], set(), {"meta", "path", "rect", "th", "td"}
    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        for name, value in attributes:
            assert not name.startswith("on") and name not in ("src", "href"), (tag, name)
        if tag not in self.single:
            self.open_tags.append(tag)
    def handle_startendtag(self, tag, attributes):
        pass
    def handle_endtag(self, tag):
        if tag not in self.single:
            assert self.open_tags.pop() == tag, tag
page = Page()
text = open(sys.argv[1], encoding="utf-8").read()
page.feed(text)
assert not page.open_tags, page.open_tags
assert {"svg", "style", "table", "h1"} <= page.tags and "script" not in page.tags, page.tags
assert "http" not in text.replace("http-equiv", ""), "a link to elsewhere"
assert text.count("class=\"lane\"") == 3, "a time line for each rank"
import re
assert re.search(r"<title>LlamaForCausalLM in model, 20\d\d-\d\d-\d\d - shardweld merge</title>", text), "model, output and day"
assert re.search(r"<h1>LlamaForCausalLM in model<", text) and re.search(r"shardweld merge, 20\d\d-\d\d-\d\d \d\d:\d\d UTC<", text)
assert re.search(r"<pre>mpirun .*-n 3 \S*shardweld merge ", text) and "its other options" not in text, "the command as typed"
assert re.search(r"<div class=\"flow\"><p><b>344 kB</b> <small>stored</small></p><svg", text), "what the flow begins with"
for part in ("Rank<th>", "<td><code>"):
    assert 'class="scroll"' in text[text.rfind("<section", 0, text.find(part)):text.find(part)], "a table that cannot scroll"
P
if command -v chromium >/dev/null; then
    expect_code 0 chromium --headless --no-sandbox --disable-gpu --dump-dom "file://$WORK/page.html"
    shows "succeeded" "Where every byte went"
    # As wide as a phone, wherever the widest words stand.
    echo "<iframe id=f src='page.html' style='width:360px'></iframe><script>f.onload = () => document.title = 'wide ' + f.contentDocument.documentElement.scrollWidth</script>" >"$WORK/phone.html"
    expect_code 0 chromium --headless --no-sandbox --disable-gpu --allow-file-access-from-files --dump-dom "file://$WORK/phone.html"
    grep -qE '<title>wide 3[0-6][0-9]</title>' "$WORK/out" || fail "wider than a phone: $(grep -o '<title>.*</title>' "$WORK/out")"
fi

# srun is no parent of the ranks: it is found by the command behind which it ends, or said to be unknown.
printf '#!/bin/bash\nshift 2\n"$@"\nexit $?\n' >"$WORK/srun" && chmod +x "$WORK/srun"
step=(env SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=1 SLURM_JOB_ID=7 SLURM_PROCID=0 PMIX_RANK=0)
own=("$SHARDWELD" merge --local_dir "$CASE/source" --hf_config "$CASE/hf" --target_dir "$WORK/none" --include 'no such' --report)
"${step[@]}" "$WORK/srun" -n 1 "${own[@]}" "$WORK/seen.json" >/dev/null 2>&1
"${step[@]}" "${own[@]}" "$WORK/unseen.json" >/dev/null 2>&1
python3 - "$WORK" <<'P' || fail "srun"
import json, sys
seen, unseen = (json.load(open(f"{sys.argv[1]}/{name}.json"))["environment"] for name in ("seen", "unseen"))
assert seen["launcher"].endswith(f"/srun -n 1 {seen['command_line']}") and not seen["launcher_unseen"], seen
assert not unseen["launcher"] and unseen["launcher_unseen"] == "started by srun -n 1, step 0 of job 7; its other options are not known", unseen
P

# What messages hide, reports, their views and logs hide, too: what names call secret, headers, addresses. Reports of earlier versions did not.
secret=verysecretword
X_API_KEY="$secret" mpirun -n 1 -x "DEMO_TOKEN=$secret" "$SHARDWELD" merge --local_dir "$CASE/source" --hf_config "$CASE/hf" --target_dir "$WORK/hidden" \
    --report "$WORK/hidden.json" --log_dir "$WORK/hidden_logs" --exclude "https://me:$secret@host/x|Authorization: $secret|$secret" -q >"$WORK/out" 2>&1
python3 - "$WORK/hidden.json" "$secret" <<'P' || fail "a report with secrets"
import json, sys
text = open(sys.argv[1]).read()
seen = json.loads(text)
assert sys.argv[2] not in text and "***" in seen["environment"]["command_line"] and "DEMO_TOKEN=***" in seen["environment"]["launcher"], seen["environment"]
seen["environment"]["command_line"] = f"shardweld watch a b --then 'curl https://me:{sys.argv[2]}@host/{{}}'"
open(sys.argv[1], "w").write(json.dumps(seen))
P
expect_code 0 "$SHARDWELD" report "$WORK/hidden.json" --html "$WORK/hidden.html"
grep -r "$secret" "$WORK"/hidden* "$WORK/out" --exclude=hidden.json && fail "secrets are shown"
finish

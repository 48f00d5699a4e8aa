use proptest::prelude::*;

use super::*;

fn printed(kind: Kind, script: &str) -> String {
    Printed::of(kind, script).unwrap().text
}

#[test]
fn shell_scripts_are_read_as_the_shell_reads_them() {
    let cases = [
        ("echo '<goto>A</goto>'", "<goto>A</goto> \n"),
        ("echo \"<fork item=\\\"$x\\\">W</fork>\"", "<fork item=\"x\">W</fork> \n"),
        ("echo '<fork item=\"'\"$x\"'\">W</fork>'", "<fork item=\"x\">W</fork> \n"),
        ("echo \"<fork item=\"$x\">W</fork>\"", "<fork item=x>W</fork> \n"),
        ("echo \"<fork item=${x@Q}>\" # it's", "<fork item=\"x\"> \n"),
        ("echo \"a $(jq -r \".b\" \"f)\") c\"", "a x c \n"),
        ("if true; then echo a; else printf '%s\\n' \"b\"; fi", "a \n%s\\n b \n"),
        ("echo a > file; echo b >&2; echo c 2>/dev/null", "c 2 /dev/null \n"),
        ("x=$(echo '<goto x=1>'); # echo no\n: 'echo no'", ""),
        ("cat <<'EOF'\n<a $x>\nEOF\necho b", "<a $x>\nb \n"),
        ("cat <<-EOF\n\t<a \"$x\">\n\tEOF\ncat > f <<E\nno\nE\npython3 - <<E\nno\nE", "\t<a \"x\">\n"),
    ];
    for (script, text) in cases {
        assert_eq!(printed(Kind::Bash, script), text, "{script}");
    }
}

#[test]
fn strings_that_are_printed_are_read() {
    let cases = [
        (Kind::Python, "print('<goto>A</goto>')  # print('b')", "<goto>A</goto>\n"),
        (Kind::Python, "print(f\"<fork item='{x['a']}'>W</fork>\")", "<fork item='x'>W</fork>\n"),
        (Kind::Python, "print(f'<fork item={quoteattr(x)}>W</fork>')", "<fork item=\"x\">W</fork>\n"),
        (
            Kind::Python,
            "print('<goto input=\"' + x.replace('\"', '') + '\">A</goto>')",
            "<goto input=\"x\">A</goto>\n",
        ),
        (Kind::Python, "print('no', file=sys.stderr)\nx = 'print(1)'\nreprint('x')", ""),
        (Kind::Python, "print('''a\nb\"''')", "a\nb\"\n"),
        (
            Kind::Node,
            "console.log(`<goto input=\"${x}\">A</goto>`); // console.log('b')",
            "<goto input=\"x\">A</goto>\n",
        ),
        (Kind::Node, "console.log('<goto input=' + x + '>A</goto>')", "<goto input=\"x\">A</goto>\n"),
        (Kind::Node, "console.error('no')", ""),
    ];
    for (kind, script, text) in cases {
        assert_eq!(printed(kind, script), text, "{script}");
    }
}

#[test]
fn scripts_of_windows_are_read() {
    let cases = [
        (Kind::Batch, "@echo off\nREM echo no\n:: echo no\necho ^<goto^>A^</goto^>\n", "<goto>A</goto>\n"),
        (
            Kind::Batch,
            "if defined X (\n  echo ^<fork a=\"%X%\" b=\"!Y!\"^>W^</fork^>\n) else echo b",
            "<fork a=\"x\" b=\"x\">W</fork>\nb\n",
        ),
        (Kind::Batch, "for %%i in (a) do echo ^<fork i=%%i^>W^</fork^> & echo c", "<fork i=x>W</fork> \nc\n"),
        (Kind::Batch, "echo a>file\necho b 2>nul\necho.\nset x=echo no\necho 5%%", "b 2>nul\n\n5x\n"),
        (Kind::PowerShell, "# 'no'\n'<goto>A</goto>'\n$x = '<no>'", "<goto>A</goto>\n"),
        (
            Kind::PowerShell,
            "foreach ($i in $all) { \"<fork item=`\"$i`\" b=$i>W</fork>\" }",
            "<fork item=\"x\" b=x>W</fork>\n",
        ),
        (
            Kind::PowerShell,
            "Write-Output ('<goto input=' + $x + '>A</goto>')",
            "<goto input=\"x\">A</goto>\n",
        ),
        (Kind::PowerShell, "if ($x) { Write-Host \"a\" } else { return 'b''c' }", "a\nb'c\n"),
        (Kind::PowerShell, "'x' | Out-File f\n$y = @(1) | % { 'no' }\n@\"\n<a \"$x\">\n\"@\n", "<a \"x\">\n"),
        (Kind::PowerShell, "[Console]::Out.Write('<goto>A</goto>'); <# 'no' #>", "<goto>A</goto>\n"),
    ];
    for (kind, script, text) in cases {
        assert_eq!(printed(kind, script), text, "{script}");
    }
}

proptest! {
    #[test]
    fn any_script_can_be_read(script in "(echo|print\\(|console.log\\(|cat <<E|\n|E|[ '\"`$(){}<>\\\\;ü@%!^&|#~1.]|a|f){0,40}") {
        for kind in [Kind::Bash, Kind::Python, Kind::Node, Kind::Batch, Kind::PowerShell] {
            let printed = Printed::of(kind, &script).unwrap();
            prop_assert_eq!(printed.text.len(), printed.places.len());
            for missed in printed.locate().missed {
                prop_assert!(printed.range_in_script(&missed.range).end <= script.len() + 4);
            }
        }
    }
}

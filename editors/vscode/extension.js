// Starts `accumlint server` and connects VS Code to it: everything else is the server's.
const vscode = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

let client;

function activate() {
  const settings = vscode.workspace.getConfiguration("accumlint");
  const folder = vscode.workspace.workspaceFolders?.[0]?.uri.fsPath ?? "";
  const [command, ...args] = settings.get("command").map((part) => part.replace("${workspaceFolder}", folder));
  client = new LanguageClient(
    "accumlint",
    { command, args },
    {
      documentSelector: [{ language: "python", scheme: "file" }, { language: "python", scheme: "untitled" }],
      initializationOptions: {
        config: settings.get("config") || null,
        confirm: settings.get("confirm"),
        debounce: settings.get("debounce"),
      },
    },
  );
  return client.start();
}

function deactivate() {
  return client?.stop();
}

module.exports = { activate, deactivate };

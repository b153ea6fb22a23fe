// Starts `collage lsp` and connects the editor with it.

const path = require("node:path");
const vscode = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

let client;

async function activate(context) {
  context.subscriptions.push(
    vscode.workspace.onDidChangeConfiguration(async (event) => {
      if (event.affectsConfiguration("collage.command")) {
        await deactivate();
        await start();
      }
    }),
  );
  await start();
}

async function deactivate() {
  const stopping = client;
  client = undefined;
  await stopping?.stop().catch(() => {}); // it may never have started
}

async function start() {
  const [command, ...args] = vscode.workspace.getConfiguration("collage").get("command");
  const run = { command: resolved(command), args };
  client = new LanguageClient("collage", "Collage", run, {
    documentSelector: [{ language: "collage" }],
    synchronize: {
      fileEvents: vscode.workspace.createFileSystemWatcher("**/{*.collage,pyproject.toml}"),
    },
  });
  try {
    await client.start();
  } catch (problem) {
    vscode.window.showErrorMessage(
      `\`${run.command}\` could not be started (${problem.message}). ` +
        "Install the server with `pip install 'collage_dsl[lsp]'`, or set `collage.command`.",
    );
  }
}

// A path such as `.venv/bin/collage` begins at the workspace folder; a name is looked up.
function resolved(command) {
  const folder = vscode.workspace.workspaceFolders?.[0];
  const isRelative = /[\\/]/.test(command) && !path.isAbsolute(command);
  return isRelative && folder ? path.join(folder.uri.fsPath, command) : command;
}

module.exports = { activate, deactivate };

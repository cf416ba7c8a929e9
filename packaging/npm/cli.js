#!/usr/bin/env node
// Prints a folder of the package, or starts ggml-info.
'use strict';
const { spawnSync } = require('node:child_process');
const { join } = require('node:path');
const paths = require('./index.js');

const folders = {
  '--prefix': paths.prefix,
  '--bindir': paths.bin,
  '--libdir': paths.lib,
  '--includedir': paths.include,
  '--cmake-dir': paths.cmakeDir,
  '--pkgconfig-dir': paths.pkgconfigDir,
};
const args = process.argv.slice(2);
if (args.length && args.every((a) => Object.hasOwn(folders, a))) {
  console.log(args.map((a) => folders[a]).join('\n'));
} else {
  if (args.length === 1 && (args[0] === '--help' || args[0] === '-h')) {
    console.log(`usage: libggml-rs ${Object.keys(folders).join(' | ')}    prints a folder of this package`);
    console.log('       libggml-rs ...    everything else is for ggml-info:\n');
  }
  const { error, signal, status } = spawnSync(join(paths.bin, 'ggml-info'), args, { stdio: 'inherit' });
  if (error) throw error;
  // As a shell says of a program that a signal has ended.
  process.exitCode = signal ? 128 + require('node:os').constants.signals[signal] : status;
}

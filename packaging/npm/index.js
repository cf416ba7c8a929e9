// The folders of the library's files.
const { join } = require('node:path');

const lib = join(__dirname, 'lib');
module.exports = {
  version: require('./package.json').version,
  prefix: __dirname,
  bin: join(__dirname, 'bin'),
  lib,
  include: join(__dirname, 'include'),
  cmakeDir: join(lib, 'cmake', 'ggml'),
  pkgconfigDir: join(lib, 'pkgconfig'),
};

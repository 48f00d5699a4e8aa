console.log('<gotoo>WORK</gotoo>');
